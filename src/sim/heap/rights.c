// SPDX-License-Identifier: Apache-2.0
/* rights.c -- the memory that a device may use: asks the books of every kind of memory. */
#include "sim/heap/rights.h"

#include "sim/heap/block.h"
#include "sim/heap/graph_memory.h"
#include "sim/heap/ipc.h"
#include "sim/memory/peer.h"

static uintptr_t end_of(const struct tn_sim_span *span)
{
    return span->start + span->bytes;
}

/* Linear memory of the host is for every context. A device's is for every context of the device,
 * and for contexts with peer access. */
static bool may_use(const struct tn_sim_context *context, const struct tn_sim_linear *linear)
{
    return linear->device == TN_SIM_HOST_HEAP || context->device == linear->device ||
           (linear->context != NULL && tn_sim_peer_enabled(context, linear->context));
}

/* The end of the range in which an address lies, if work of a context has the needed right to this
 * range; otherwise 0. No address is of two kinds (SA1). */
static uintptr_t usable_end(uintptr_t address, const struct tn_sim_context *context,
                            unsigned int need)
{
    const struct tn_sim_graph_block *block = tn_sim_graph_block_at(address);
    if (block != NULL && tn_sim_graph_block_backed(block))
        return block->access[context->device] ? end_of(&block->span) : 0;
    const struct tn_sim_mapping *mapping = tn_sim_mapping_at(address);
    if (mapping != NULL)
        return (mapping->rights.device[context->device] & need) == need
                   ? mapping->span.start + mapping->page_bytes
                   : 0;
    const struct tn_sim_linear *linear = tn_sim_index_find(&tn_sim_linears, address);
    if (linear != NULL)
        return may_use(context, linear) ? end_of(&linear->span) : 0;
    const struct tn_sim_opening *opening = tn_sim_index_find(&tn_sim_openings, address);
    if (opening != NULL)
        return context->device == opening->context->device ||
                       tn_sim_peer_enabled(context, opening->context)
                   ? end_of(&opening->span)
                   : 0;
    const struct tn_sim_host *host = tn_sim_index_find(&tn_sim_hosts, address);
    return host == NULL ? 0 : end_of(&host->span);
}

static bool allows(uintptr_t address, size_t bytes, const struct tn_sim_context *context,
                   bool write, bool has_its_turn)
{
    struct tn_sim_span lent;
    unsigned int need = write ? TN_CU_MEM_ACCESS_READWRITE : TN_CU_MEM_ACCESS_READ;
    uintptr_t end = address + bytes;
    if (end < address)
        return false;
    /* Mappings do not overlap (SA1), and lie where addresses are reserved (SA2: vmm.c). */
    while (address < end) {
        uintptr_t reached = usable_end(address, context, need);
        if (reached == 0 && has_its_turn && tn_sim_block_lends(address, context->device, &lent))
            reached = end_of(&lent);
        if (reached == 0)
            return false;
        address = reached;
        /* A range that a call names may cross from one mapping to the next, but not between other
         * memory. */
        if (address < end && !has_its_turn &&
            tn_sim_index_find(&tn_sim_mappings, address - 1) == NULL)
            return false;
    }
    return true;
}

bool tn_sim_space_allows(uintptr_t address, size_t bytes, const struct tn_sim_context *context,
                         bool write)
{
    return allows(address, bytes, context, write, false);
}

bool tn_sim_space_allows_work(uintptr_t address, size_t bytes, const struct tn_sim_context *context,
                              bool write)
{
    return allows(address, bytes, context, write, true);
}
