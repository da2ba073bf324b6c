// SPDX-License-Identifier: Apache-2.0
/* object.h -- the shared object or the program that the library is a part of.
 *
 * libtarn.so is a shared object of its own. libtarn.a is a part of the program or plugin that was
 * linked with it. A program may close a plugin after threads have used the library.
 *
 * Locking: none; any thread. */
#ifndef TARN_BASE_OBJECT_H
#define TARN_BASE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

/* Keeps the object loaded from then on, whoever closes it: ending threads and the driver call
 * functions of the library later. Must be called before a thread or the driver learns of such a
 * function. */
void tn_object_keep(void);

/* Whether the library is part of the program. */
bool tn_object_is_program(void);

/* The folder of the object's file, without a slash at its end. False: not known, or too long. */
bool tn_object_folder(char *folder, size_t bytes);

#endif
