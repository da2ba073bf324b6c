// SPDX-License-Identifier: Apache-2.0
/* store.c -- extents of a sparse file, first fit.
 *
 * How it works. An allocation is one extent. A GPU maps its memory in pages, so it never fails for
 * fragmentation; here the file is therefore larger than the device by more than first fit can ever
 * lose: with sizes from 2 MiB to the device's whole memory M, first fit needs at most about
 * M * log2(M / 2 MiB) (Robson, "Bounds for some functions concerning dynamic storage allocation",
 * J. ACM 21, 1974), and 32 * M covers devices up to 2^32 granules. The pages of free extents are
 * punched out, so only what is in use takes the host's memory.
 *
 * Fresh memory is poisoned sparsely, 4 KiB at the start of each 2 MiB: enough to show a read of
 * what was never written, without writing GiBs for each allocation. The rest reads as zeros.
 *
 * Trade-offs. First fit walks the free list; a list of thousands of holes would want a tree. */
#include "sim/core/store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/core/shared.h"
#include "sim/core/written.h"

#define FILE_FACTOR 32
#define POISON 0xA5
#define POISON_BYTES 4096

bool tn_sim_store_init(struct tn_sim_store *store, size_t bytes)
{
    struct tn_sim_extent *whole = malloc(sizeof *whole);
    if (whole == NULL)
        return false;
    *whole = (struct tn_sim_extent){.offset = 0, .bytes = bytes * FILE_FACTOR};
    int file = memfd_create("tarn_sim_device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)whole->bytes) != 0) {
        if (file >= 0)
            close(file);
        free(whole);
        return false;
    }
    *store = (struct tn_sim_store){.file = file, .total_bytes = bytes, .free = whole, .device = -1};
    return true;
}

void tn_sim_store_fini(struct tn_sim_store *store)
{
    close(store->file);
    free(store->free);
    *store = (struct tn_sim_store){.file = -1};
}

/* A host without memory for the pattern is out of memory for the use of the memory too. */
bool tn_sim_store_poison(int file, size_t offset, size_t bytes)
{
    unsigned char pattern[POISON_BYTES];
    if (!tn_sim.poison)
        return true;
    memset(pattern, POISON, sizeof pattern);
    for (size_t at = 0; at < bytes; at += TN_SIM_GRANULE) {
        ssize_t written = pwrite(file, pattern, sizeof pattern, (off_t)(offset + at));
        if (written != (ssize_t)sizeof pattern)
            return false;
    }
    return true;
}

size_t tn_sim_store_left(const struct tn_sim_store *store)
{
    size_t used = store->used_bytes + tn_sim_shared_others(store->device);
    return used < store->total_bytes ? store->total_bytes - used : 0;
}

/* Tells the other processes of a device what this one has. */
static void publish(const struct tn_sim_store *store)
{
    tn_sim_shared_publish(store->device, store->used_bytes);
}

/* Takes the given bytes if a device has them left, and gives spare memory up for them. */
static bool take_bytes(struct tn_sim_store *store, size_t bytes)
{
    tn_sim_shared_enter();
    if (bytes > tn_sim_store_left(store)) {
        store->used_bytes -= store->spare_bytes;
        store->spare_bytes = 0;
    }
    bool there = bytes <= tn_sim_store_left(store);
    if (there)
        store->used_bytes += bytes;
    publish(store);
    tn_sim_shared_leave();
    return there;
}

static void give_bytes(struct tn_sim_store *store, size_t bytes)
{
    store->used_bytes -= bytes;
    publish(store);
}

void tn_sim_store_spare(struct tn_sim_store *store, size_t bytes)
{
    store->spare_bytes += bytes;
}

size_t tn_sim_store_unspare(struct tn_sim_store *store, size_t bytes)
{
    size_t taken = bytes < store->spare_bytes ? bytes : store->spare_bytes;
    store->spare_bytes -= taken;
    return taken;
}

bool tn_sim_store_charge(struct tn_sim_store *store, size_t bytes)
{
    return take_bytes(store, bytes);
}

void tn_sim_store_discharge(struct tn_sim_store *store, size_t bytes)
{
    give_bytes(store, bytes);
}

size_t tn_sim_store_file_bytes(const struct tn_sim_store *store)
{
    return store->total_bytes * FILE_FACTOR;
}

/* Cuts an extent out of the file; NULL when the host has no memory. */
static struct tn_sim_extent *cut(struct tn_sim_store *store, size_t bytes)
{
    struct tn_sim_extent **link = &store->free;
    while (*link != NULL && (*link)->bytes < bytes)
        link = &(*link)->next;
    struct tn_sim_extent *found = *link;
    if (found == NULL)
        return NULL;
    struct tn_sim_extent *taken = found;
    if (found->bytes == bytes) {
        *link = found->next;
    } else {
        taken = malloc(sizeof *taken);
        if (taken == NULL)
            return NULL;
        *taken = (struct tn_sim_extent){.offset = found->offset, .bytes = bytes};
        found->offset += bytes;
        found->bytes -= bytes;
    }
    return taken;
}

struct tn_sim_extent *tn_sim_store_take(struct tn_sim_store *store, size_t bytes)
{
    if (!take_bytes(store, bytes))
        return NULL;
    struct tn_sim_extent *taken = cut(store, bytes);
    if (taken == NULL) {
        give_bytes(store, bytes);
        return NULL;
    }
    if (!tn_sim_store_poison(store->file, taken->offset, taken->bytes)) {
        tn_sim_store_give(store, taken);
        return NULL;
    }
    tn_sim_written_clear(store, taken);
    return taken;
}

void tn_sim_store_give(struct tn_sim_store *store, struct tn_sim_extent *extent)
{
    give_bytes(store, extent->bytes);
    fallocate(store->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)extent->offset,
              (off_t)extent->bytes);
    struct tn_sim_extent *before = NULL;
    struct tn_sim_extent *after = store->free;
    while (after != NULL && after->offset < extent->offset) {
        before = after;
        after = after->next;
    }
    extent->next = after;
    if (before != NULL)
        before->next = extent;
    else
        store->free = extent;
    if (after != NULL && extent->offset + extent->bytes == after->offset) {
        extent->bytes += after->bytes;
        extent->next = after->next;
        free(after);
    }
    if (before != NULL && before->offset + before->bytes == extent->offset) {
        before->bytes += extent->bytes;
        before->next = extent->next;
        free(extent);
    }
}
