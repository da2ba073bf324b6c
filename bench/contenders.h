// SPDX-License-Identifier: Apache-2.0
/* contenders.h -- Tarn and the driver's allocator, in rows where blocks of many sizes come and go: as
 * players of random traces (script_player.h), and what players of recorded ones (player.h) share with
 * those. */
#ifndef TARN_BENCH_CONTENDERS_H
#define TARN_BENCH_CONTENDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rows.h"
#include "script_player.h"

/* Tarn with a pool of its own, on the device that is the player's context; and the device's default
 * memory pool, whose context is not looked at. */
extern const struct script_allocator script_tarn;
extern const struct script_allocator script_driver;

/* Whether the driver's allocator plays traces here. That of the simulated driver is no rival: it
 * searches a list, and would play for minutes. It plays in quick runs alone, which are short. */
bool contenders_rival_plays(const struct bench *bench);

/* The largest blocks of up to bytes_max, a power of two, of which so many take no more than the part
 * of the free memory. */
size_t contenders_choose_bytes_max(size_t bytes_max, size_t count, size_t parts);

/* The most bytes that a pool of Tarn has had mapped, and live. */
void contenders_get_pool_peaks(tarn_pool *pool, uint64_t *reserved, uint64_t *allocated);

#endif
