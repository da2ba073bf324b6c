// SPDX-License-Identifier: Apache-2.0
/* intern.h -- texts with numbers: equal texts have the same, from 0 in the order of their coming. */
#ifndef TARN_COMMAND_INTERN_H
#define TARN_COMMAND_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct intern {
    char **all;
    size_t count;
    size_t capacity;
    uint32_t *table; /* a number and one, by the text's hash; 0: free */
    size_t table_size;
};

enum { INTERN_NONE = -1 };

/* The text's number; INTERN_NONE: no memory. *is_new: whether it has just got it; NULL: not asked. */
int64_t intern_add(struct intern *intern, const char *text, bool *is_new);
void intern_free(struct intern *intern);

#endif
