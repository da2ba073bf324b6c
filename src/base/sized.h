// SPDX-License-Identifier: Apache-2.0
/* sized.h -- structs that begin with their size, as programs of other versions hand them in.
 *
 * Such a struct begins with a size_t, the caller's sizeof; 0 is the default of all other fields. It
 * grows at its end alone, and never into padding, so the size says which fields the caller has.
 *
 *   the size                  an input                          an output
 *   0, or below the least,    refused                           refused
 *   or no multiple of 8
 *   below what is known here  missing fields have the default   the caller's fields are written, and nothing behind
 *   above what is known here  refused where a byte behind the   the bytes behind the known fields become 0
 *                             known fields is not 0
 *   above TN_SIZED_BYTES_MAX  refused                           refused
 *
 * The size itself stays as the caller set it. copy_struct_from_user() of Linux has the same rule,
 * with the same bound: a size that nobody has set must not lead to bytes that are not the caller's.
 *
 * The public structs are listed in api/structs.h. No lock; any thread. */
#ifndef TARN_BASE_SIZED_H
#define TARN_BASE_SIZED_H

#include <stddef.h>

#include "tarn/status.h"

enum { TN_SIZED_BYTES_MAX = 4096 }; /* no version of a struct is larger */

/* A struct, as this version knows it. */
struct tn_sized {
    const char *name;   /* of the type, for sentences */
    size_t least_bytes; /* the least size that it ever had; never raised */
    size_t known_bytes; /* its size in this version */
};

/* last: the last field of the least size: what every caller has. */
#define TN_SIZED(type, last)                                                                       \
    ((struct tn_sized){                                                                            \
        .name = #type,                                                                             \
        .least_bytes = offsetof(type, last) + sizeof(((type *)NULL)->last),                        \
        .known_bytes = sizeof(type),                                                               \
    })

/* Reads an input of any version; given NULL: all defaults. known: of known_bytes, has the size of
 * this version afterwards, and all defaults where the input is refused.
 *   INVALID_ARGUMENT  the size is wrong, or a field that is unknown here is not 0 */
TARN_MUST_CHECK tarn_status tn_sized_read(struct tn_sized sized, const void *given, void *known);

/* Whether an output can be written. INVALID_ARGUMENT: given is NULL, or its size is wrong. */
TARN_MUST_CHECK tarn_status tn_sized_check(struct tn_sized sized, const void *given);

/* Writes an output that was checked, from one of this version. */
void tn_sized_write(struct tn_sized sized, void *given, const void *known);

#endif
