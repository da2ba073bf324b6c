// SPDX-License-Identifier: Apache-2.0
/* check.c -- looks at operations: do they read what was written, and are they ordered?
 *
 * How it works. Bitmaps (written.c) remember the sectors of 512 bytes written since the memory was
 * taken. Each sector has a bit, by its place in the file behind a device's memory. Memory therefore
 * keeps its bits when mapped elsewhere, and aliases share them. An operation's ranges are looked up
 * when the operation runs, as on a device: first the ranges read, then the ranges written.
 *
 * A kernel tells its ranges by a function registered for the kernel. A kernel without this function
 * may have written any mapped memory. All mapped memory then counts as written: the checker sees
 * less, and never reports a correct program.
 *
 * Trade-offs. A sector counts as written when any of its bytes was: a program that reads the rest
 * of a sector is not found. Memory that the host or another process can write counts as written.
 * The checker does not see writes by which a program follows a device address itself, which no
 * program could do on a GPU. */
#include "sim/run/check.h"

#include <stdlib.h>
#include <string.h>

#include "sim/heap/block.h"
#include "sim/core/context.h"
#include "sim/code/module.h"
#include "sim/graph/op.h"
#include "sim/stream/clock.h"
#include "sim/memory/physical.h"
#include "sim/core/report.h"
#include "sim/memory/space.h"
#include "sim/core/written.h"

#define MAX_RANGES 64

struct ranges {
    char *name;
    tarn_sim_kernel_ranges function;
    struct ranges *next;
};

static struct ranges *kernels;

static struct ranges *ranges_of(const char *name)
{
    struct ranges *ranges = kernels;
    while (ranges != NULL && strcmp(ranges->name, name) != 0)
        ranges = ranges->next;
    return ranges;
}

/* Adds a record without a function; NULL when memory ran out. */
static struct ranges *add_ranges(const char *name)
{
    struct ranges *ranges = calloc(1, sizeof *ranges);
    if (ranges == NULL)
        return NULL;
    ranges->name = strdup(name);
    if (ranges->name == NULL) {
        free(ranges);
        return NULL;
    }
    ranges->next = kernels;
    kernels = ranges;
    return ranges;
}

int tarn_sim_register_kernel_ranges(const char *entry, tarn_sim_kernel_ranges function)
{
    if (entry == NULL || function == NULL || !tn_sim_enter_control())
        return -1;
    struct ranges *ranges = ranges_of(entry);
    if (ranges == NULL)
        ranges = add_ranges(entry);
    if (ranges != NULL)
        ranges->function = function;
    tn_sim_leave();
    return ranges == NULL ? -1 : 0;
}

/* The part of a range that lies in a device's file. */
struct piece {
    int device;
    size_t offset;
    size_t bytes; /* up to the end of the mapping or of the range */
};

/* Finds the memory that an address names. Returns false for memory without a bitmap. */
static bool find_piece(uintptr_t address, size_t bytes, struct piece *piece)
{
    const struct tn_sim_mapping *mapping = tn_sim_index_find(&tn_sim_mappings, address);
    const struct tn_sim_linear *linear = tn_sim_index_find(&tn_sim_linears, address);
    if (mapping != NULL) {
        const struct tn_sim_backing *backing = mapping->physical->backing;
        if (tn_sim_physical_on_host(mapping->physical) || backing->extent == NULL)
            return false;
        *piece = (struct piece){mapping->physical->prop.location.id, backing->extent->offset, 0};
    } else if (linear != NULL) {
        struct tn_sim_span chunk;
        const struct tn_sim_extent *extent =
            tn_sim_block_chunk(linear->piece->block, address, &chunk)->extent;
        uintptr_t end = linear->span.start + linear->span.bytes;
        size_t left = (end < chunk.start + chunk.bytes ? end : chunk.start + chunk.bytes) - address;
        *piece = (struct piece){linear->device, extent->offset + (address - chunk.start),
                                left < bytes ? left : bytes};
        return tn_sim_written_prepare(piece->device);
    } else {
        return false;
    }
    size_t into = address - mapping->span.start;
    piece->offset += into;
    piece->bytes = mapping->span.bytes - into < bytes ? mapping->span.bytes - into : bytes;
    return tn_sim_written_prepare(piece->device);
}

static void check_read(const struct tn_sim_op *op, uintptr_t address, size_t bytes)
{
    struct piece piece;
    for (; bytes > 0 && find_piece(address, bytes, &piece); bytes -= piece.bytes) {
        size_t into;
        if (tn_sim_written_gap(piece.device, piece.offset, piece.bytes, &into)) {
            tn_sim_report_of(op->made_by, "reads memory that was never written: 0x%llx",
                             (unsigned long long)(address + into));
            return;
        }
        address += piece.bytes;
    }
}

static void note_write(uintptr_t address, size_t bytes)
{
    struct piece piece;
    for (; bytes > 0 && find_piece(address, bytes, &piece); bytes -= piece.bytes) {
        tn_sim_written_note(piece.device, piece.offset, piece.bytes);
        address += piece.bytes;
    }
}

static void note_anything(void)
{
    for (size_t i = 0; i < tn_sim_mappings.count; i++)
        note_write(tn_sim_mappings.items[i]->start, tn_sim_mappings.items[i]->bytes);
    for (size_t i = 0; i < tn_sim_linears.count; i++)
        note_write(tn_sim_linears.items[i]->start, tn_sim_linears.items[i]->bytes);
}

/* Has accesses to memory with several addresses compared. */
static void note_access(const struct tn_sim_op *op, uintptr_t address, size_t bytes, bool write)
{
    while (bytes > 0) {
        const struct tn_sim_mapping *mapping = tn_sim_index_find(&tn_sim_mappings, address);
        if (mapping == NULL)
            return;
        const struct tn_sim_physical *physical = mapping->physical;
        size_t into = address - mapping->span.start;
        size_t left = mapping->span.bytes - into < bytes ? mapping->span.bytes - into : bytes;
        if (physical->mappings > 1 || physical->backing->references > 1)
            tn_sim_clock_touch(op, physical->backing, into, left, address, write);
        address += left;
        bytes -= left;
    }
}

static void reads(const struct tn_sim_op *op, uintptr_t address, size_t bytes)
{
    check_read(op, address, bytes);
    note_access(op, address, bytes, false);
}

static void writes(const struct tn_sim_op *op, uintptr_t address, size_t bytes)
{
    note_write(address, bytes);
    note_access(op, address, bytes, true);
}

static void check_kernel(const struct tn_sim_op *op)
{
    tarn_sim_range ranges[MAX_RANGES];
    const struct ranges *known = ranges_of(op->kernel.code->entry.name);
    size_t count = known == NULL
                       ? MAX_RANGES + 1
                       : known->function(&op->kernel.launch, op->kernel.params, ranges, MAX_RANGES);
    if (count > MAX_RANGES) {
        note_anything();
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if ((ranges[i].use & TARN_SIM_READS) != 0)
            reads(op, ranges[i].address, ranges[i].bytes);
    }
    for (size_t i = 0; i < count; i++) {
        if ((ranges[i].use & TARN_SIM_WRITES) != 0)
            writes(op, ranges[i].address, ranges[i].bytes);
    }
}

static bool check_row(uintptr_t to, uintptr_t from, size_t bytes, void *argument)
{
    const struct tn_sim_op *op = argument;
    if (op->copy.from_device && op->copy.staged == NULL)
        reads(op, from, bytes);
    if (op->copy.to_device)
        writes(op, to, bytes);
    return true;
}

static void check_set(const struct tn_sim_op *op)
{
    uintptr_t row = op->set.address;
    for (size_t y = 0; y == 0 || y < op->set.rows; y++, row += op->set.pitch)
        writes(op, row, op->set.width * op->set.count);
}

void tn_sim_check_op(struct tn_sim_op *op)
{
    if (tn_sim.check == 0)
        return;
    switch (op->type) {
    case TN_CU_NODE_KERNEL:
        check_kernel(op);
        break;
    case TN_CU_NODE_MEMCPY:
        tn_sim_copy_each_row(&op->copy, check_row, op);
        break;
    case TN_CU_NODE_MEMSET:
        check_set(op);
        break;
    case TN_CU_NODE_HOST:
        tn_sim_clock_told();
        break;
    default:
        break;
    }
}

void tn_sim_check_word(struct tn_sim_op *op, uintptr_t address, size_t bytes)
{
    if (tn_sim.check == 0)
        return;
    writes(op, address, bytes);
    tn_sim_clock_told();
}

void tn_sim_check_heard(void)
{
    if (tn_sim.check > 0)
        tn_sim_clock_heard();
}
