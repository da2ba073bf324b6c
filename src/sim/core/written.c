// SPDX-License-Identifier: Apache-2.0
/* written.c -- bitmaps of the sectors that were written since their memory was taken.
 *
 * Trade-offs. A sector of 512 bytes counts as written when one of its bytes was. */
#include "sim/core/written.h"

#include <string.h>
#include <sys/mman.h>

#include "sim/core/context.h"

#define SECTOR 512u

/* A bit for each sector of each device's file; NULL until the device first hands memory out. */
static unsigned char *written[TN_SIM_MAX_DEVICES];

/* Sectors of the file behind a device. */
static size_t sector_count(const struct tn_sim_store *store)
{
    return tn_sim_store_file_bytes(store) / SECTOR;
}

/* The bitmap of a device, made when it is first asked for; NULL when memory ran out. */
static unsigned char *bitmap_of(int device)
{
    if (written[device] == NULL) {
        size_t bytes = sector_count(&tn_sim_devices[device].store) / 8;
        void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        written[device] = place == MAP_FAILED ? NULL : place;
    }
    return written[device];
}

static void set_bits(unsigned char *bitmap, size_t first, size_t end, bool on)
{
    for (; first < end && first % 8 != 0; first++)
        bitmap[first / 8] = (unsigned char)(on ? bitmap[first / 8] | 1u << first % 8
                                               : bitmap[first / 8] & ~(1u << first % 8));
    if (end - first >= 8) {
        memset(bitmap + first / 8, on ? 0xFF : 0, (end - first) / 8);
        first += (end - first) / 8 * 8;
    }
    for (; first < end; first++)
        bitmap[first / 8] = (unsigned char)(on ? bitmap[first / 8] | 1u << first % 8
                                               : bitmap[first / 8] & ~(1u << first % 8));
}

/* The first sector of a range that has not been written; end when all have. */
static size_t first_unwritten(const unsigned char *bitmap, size_t first, size_t end)
{
    while (first < end && (bitmap[first / 8] >> first % 8 & 1) != 0)
        first += first % 8 == 0 && bitmap[first / 8] == 0xFF ? 8 : 1;
    return first < end ? first : end;
}

bool tn_sim_written_prepare(int device)
{
    return bitmap_of(device) != NULL;
}

void tn_sim_written_clear(const struct tn_sim_store *store, const struct tn_sim_extent *extent)
{
    if (tn_sim.check == 0)
        return;
    for (int device = 0; device < tn_sim.device_count; device++) {
        if (&tn_sim_devices[device].store != store || bitmap_of(device) == NULL)
            continue;
        set_bits(written[device], extent->offset / SECTOR,
                 (extent->offset + extent->bytes) / SECTOR, false);
    }
}

void tn_sim_written_note(int device, size_t offset, size_t bytes)
{
    set_bits(written[device], offset / SECTOR, (offset + bytes + SECTOR - 1) / SECTOR, true);
}

bool tn_sim_written_gap(int device, size_t offset, size_t bytes, size_t *into)
{
    size_t first = offset / SECTOR;
    size_t end = (offset + bytes + SECTOR - 1) / SECTOR;
    size_t found = first_unwritten(written[device], first, end);
    *into = found == first ? 0 : found * SECTOR - offset;
    return found < end;
}
