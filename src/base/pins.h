// SPDX-License-Identifier: Apache-2.0
/* pins.h -- counts the calls that use a record, and says whether new calls may enter.
 *
 * One word holds both. The thread that ends the record closes the word only while no call is
 * inside, and later calls are refused. The record is recycled, never freed, and keeps its pins, so
 * a call may ask a stale handle. A refused call is counted for a moment.
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

/* For a record that the caller keeps alive by other means until the pin is added. */
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

/* True: closed, now or before. False: a call is inside, and the record stays open. */
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
