// SPDX-License-Identifier: Apache-2.0
/* pins.h -- who is inside calls that use a record, and whether anybody may still come in.
 *
 * One word for both: who ends the record closes it only where nobody is inside, and who comes in behind that is told.
 * The record is recycled, never freed, and its pins are kept there, so a handle out of date may be asked. Such a call
 * counts for a moment.
 *
 * Locking: none; any thread. Zeroed memory is open, with nobody inside. */
#ifndef TARN_BASE_PINS_H
#define TARN_BASE_PINS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tn_pins {
    atomic_uint_fast64_t word; /* how many are inside, and TN_PINS_CLOSED */
};

#define TN_PINS_CLOSED ((uint64_t)1 << 63)

static inline uint64_t tn_pins_count(const struct tn_pins *pins)
{
    return atomic_load(&pins->word) & ~TN_PINS_CLOSED;
}

/* Of a record that something else keeps until then. */
static inline void tn_pins_add(struct tn_pins *pins)
{
    atomic_fetch_add(&pins->word, 1);
}

static inline void tn_pins_drop(struct tn_pins *pins)
{
    atomic_fetch_sub(&pins->word, 1);
}

/* False: the record is ended, and nobody has come in. */
static inline bool tn_pins_try(struct tn_pins *pins)
{
    if ((atomic_fetch_add(&pins->word, 1) & TN_PINS_CLOSED) == 0)
        return true;
    tn_pins_drop(pins);
    return false;
}

/* False: somebody is inside, and it stays open. It may be closed already. */
static inline bool tn_pins_close(struct tn_pins *pins)
{
    uint_fast64_t none = 0;

    return atomic_compare_exchange_strong(&pins->word, &none, TN_PINS_CLOSED) ||
           none == TN_PINS_CLOSED;
}

static inline void tn_pins_open(struct tn_pins *pins)
{
    atomic_fetch_and(&pins->word, ~TN_PINS_CLOSED);
}

#endif
