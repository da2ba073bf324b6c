// SPDX-License-Identifier: Apache-2.0
/* object.h -- the shared object or the program that the library is a part of.
 *
 * libtarn.so is one by itself. libtarn.a is a part of whatever was linked with it: a program, or a plugin, which its
 * program may close while threads have used it.
 *
 * Locking: none; any thread. */
#ifndef TARN_BASE_OBJECT_H
#define TARN_BASE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

/* The object stays loaded from then on, whoever closes it: the ends of threads and the driver call functions of the
 * library later. To be called before either is told of one. */
void tn_object_keep(void);

/* Whether it is the program itself. */
bool tn_object_is_program(void);

/* The folder that the object's file lies in, without a slash at its end. False: it is not known, or too long. */
bool tn_object_folder(char *folder, size_t bytes);

#endif
