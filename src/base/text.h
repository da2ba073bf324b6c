// SPDX-License-Identifier: Apache-2.0
/* text.h -- reports written into a buffer of the caller's.
 *
 * Text that does not fit is counted and not written. The caller learns the length of the whole.
 *
 * Locking: none; a text is its writer's. */
#ifndef TARN_BASE_TEXT_H
#define TARN_BASE_TEXT_H

#include <stddef.h>

struct tn_text {
    char *buffer; /* NULL where capacity is 0 */
    size_t capacity;
    size_t length; /* of the whole, without the zero byte behind it */
};

__attribute__((format(printf, 2, 3))) void tn_put(struct tn_text *text, const char *format, ...);

/* Writes a JSON string. A name may have any bytes: a byte that is not printable ASCII is written as
 * the code point of its number. */
void tn_put_string(struct tn_text *text, const char *string);

#endif
