// SPDX-License-Identifier: Apache-2.0
/* The driver's allocation nodes give memory that does not exist before the graph has run, and that
 * the driver does not know: it is noted here. */
#include "inspect/collection.h"

#include <stdlib.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/host.h"
#include "vmm/host_region.h"

enum { NODES_AHEAD = 8 };

tarn_status tn_collection_no_memory(void)
{
    return tn_fail(TARN_ERR_HOST_MEMORY, "no host memory for what a graph refers to");
}

/* Adds the regions of registered memory behind the others, as far as the list has room; returns the
 * count of all. */
static size_t add_of_host(struct tn_collection *collection, struct tn_regions *regions,
                          size_t count)
{
    struct tn_host_regions *of_host = atomic_load(&regions->of_host);
    const struct tn_host_region *region = of_host != NULL ? tn_host_regions_first(of_host) : NULL;

    for (; region != NULL; region = region->next) {
        if (count < collection->region_capacity)
            collection->regions[count] =
                (struct tn_range){region->base, region->slot_count * TN_SLOT_BYTES};
        count += 1;
    }
    return count;
}

tarn_status tn_collection_add_regions(struct tn_collection *collection, struct tn_regions *regions)
{
    do { /* by then another region may be there */
        if (!tn_host_grow((void **)&collection->regions, &collection->region_capacity,
                          tn_max(collection->region_count, 1), sizeof *collection->regions))
            return tn_collection_no_memory();
        collection->region_count =
            tn_regions_list(regions, collection->regions, collection->region_capacity);
        collection->region_count = add_of_host(collection, regions, collection->region_count);
    } while (collection->region_count > collection->region_capacity);
    return TARN_OK;
}

static tarn_status note_allocation(struct tn_collection *collection, const tarn_audit_node *at)
{
    struct tn_references *to = collection->to;
    struct tn_node node;
    tarn_status status =
        tn_node_read(collection->gpu, at->handle, (tn_cu_graphnode_type)at->type, &node);

    if (status != TARN_OK)
        return status;
    if (!tn_host_grow((void **)&to->given, &collection->given_capacity, to->given_count + 1,
                      sizeof *to->given))
        return tn_collection_no_memory();
    to->given[to->given_count] = (struct tn_range){node.alloc.address, node.alloc.bytes};
    to->given_count += 1;
    return TARN_OK;
}

static tarn_status add_nodes(struct tn_collection *collection, tn_cu_graph graph, uint32_t parent)
{
    struct tn_references *to = collection->to;
    tn_cu_graphnode *handles = NULL;
    size_t count = 0;
    tarn_status status = tn_driver_graph_read_nodes(collection->gpu, graph, &handles, &count);

    if (status == TARN_OK && !tn_host_grow((void **)&to->levels, &to->level_capacity,
                                           to->level_count + 1, sizeof *to->levels))
        status = tn_collection_no_memory();
    if (status == TARN_OK && to->node_count + count >= TARN_NO_NODE)
        status = tn_fail(TARN_ERR_LIMIT, "a graph of 2^32 nodes or more cannot be looked through");
    if (status == TARN_OK && count > 0 &&
        !tn_host_grow((void **)&to->nodes, &to->node_capacity, to->node_count + count,
                      sizeof *to->nodes))
        status = tn_collection_no_memory();
    if (status == TARN_OK) {
        to->levels[to->level_count] =
            (struct tn_level){graph, (uint32_t)to->node_count, (uint32_t)count};
        to->level_count += 1;
    }
    for (size_t i = 0; status == TARN_OK && i < count; i++) {
        tarn_audit_node *node = &to->nodes[to->node_count];
        tn_cu_graphnode_type type = TN_CU_NODE_EMPTY;

        if (i + NODES_AHEAD < count) /* up to now, a handle is the address of the driver's node */
            __builtin_prefetch(handles[i + NODES_AHEAD]);
        *node = (tarn_audit_node){.handle = handles[i], .parent = parent, .ordinal = (uint32_t)i};
        status = tn_node_type(collection->gpu, handles[i], &type);
        node->type = (int)type;
        if (type == TN_CU_NODE_CONDITIONAL)
            node->inspection = TARN_INSPECTION_NO_BODIES;
        if (status == TARN_OK && type == TN_CU_NODE_MEM_ALLOC)
            status = note_allocation(collection, node);
        to->node_count += 1;
    }
    tn_host_free(handles);
    return status;
}

/* Adds the nodes of the child graphs among the nodes from `from` on, and of their child graphs. */
static tarn_status add_children(struct tn_collection *collection, uint32_t from)
{
    struct tn_references *to = collection->to;
    tarn_status status = TARN_OK;

    for (uint32_t i = from; status == TARN_OK && i < to->node_count; i++) {
        struct tn_node node;

        if (to->nodes[i].type != TN_CU_NODE_GRAPH)
            continue;
        status = tn_node_read(collection->gpu, to->nodes[i].handle, TN_CU_NODE_GRAPH, &node);
        if (status == TARN_OK)
            status = add_nodes(collection, node.child, i);
    }
    return status;
}

/* The conditional node with this handle; TARN_NO_NODE: none. */
static uint32_t find_conditional(const struct tn_references *references, tarn_driver_node handle)
{
    for (uint32_t i = 0; handle != NULL && i < references->node_count; i++) {
        if (references->nodes[i].handle == handle)
            return references->nodes[i].type == TN_CU_NODE_CONDITIONAL ? i : TARN_NO_NODE;
    }
    return TARN_NO_NODE;
}

/* G4 */
tarn_status tn_collection_find_nodes(struct tn_collection *collection, tn_cu_graph graph,
                                     const tarn_audit_body *bodies, size_t body_count)
{
    struct tn_references *to = collection->to;
    tarn_status status = add_nodes(collection, graph, TARN_NO_NODE);

    if (status == TARN_OK)
        status = add_children(collection, 0);
    for (size_t i = 0; status == TARN_OK && i < body_count; i++) {
        uint32_t from = (uint32_t)to->node_count;
        uint32_t parent = find_conditional(to, bodies[i].node);

        if (parent == TARN_NO_NODE && bodies[i].node != NULL)
            return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                           "body %zu names a node that is no conditional node of the graph", i);
        if (parent != TARN_NO_NODE)
            to->nodes[parent].inspection = TARN_INSPECTED;
        status = add_nodes(collection, bodies[i].graph, parent);
        if (status == TARN_OK)
            status = add_children(collection, from);
    }
    return status;
}

static int compare_ranges(const void *a, const void *b)
{
    const struct tn_range *first = a;
    const struct tn_range *second = b;

    return (first->base > second->base) - (first->base < second->base);
}

size_t tn_ranges_unite(struct tn_range *ranges, size_t count)
{
    size_t kept = 0;

    if (count == 0)
        return 0;
    qsort(ranges, count, sizeof *ranges, compare_ranges);
    for (size_t i = 1; i < count; i++) {
        uint64_t end = ranges[kept].base + ranges[kept].bytes;

        if (ranges[i].base > end)
            ranges[++kept] = ranges[i];
        else
            ranges[kept].bytes = tn_max(end, ranges[i].base + ranges[i].bytes) - ranges[kept].base;
    }
    return kept + 1;
}
