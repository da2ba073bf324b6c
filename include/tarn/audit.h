// SPDX-License-Identifier: Apache-2.0
/* audit.h -- what a captured graph touches: looked through, and guarded.
 *
 * A captured graph is a list of addresses that nobody checks: when one of them has been freed, or is another
 * block's by now, a replay reads garbage and says nothing. An audit reads the graph back from the driver, finds
 * every address in it, says of each what memory it is, and names the mistakes:
 *
 *   tarn_graph_audit(graph, NULL, &audit);
 *   if (audit->mistake_count > 0)
 *       tarn_audit_report(audit, TARN_REPORT_TEXT, text, sizeof text, NULL);
 *   tarn_audit_destroy(audit);
 *
 * A guard goes on from there: the blocks that a graph refers to and does not hold itself are kept until it is
 * gone, or the graph is not replayed any more once one of them was freed.
 *
 * What is seen: the addresses that copies, sets, batches and the driver's memory nodes name; and of kernels each
 * word of eight bytes of each parameter, structs included, that is one of Tarn's addresses or memory that the
 * driver knows. What is not: what a kernel finds in memory or computes, __device__ variables, what a host function
 * touches beyond its argument. A number that happens to be such an address is taken for one. So that a small number of
 * 32 bits beside a gap in a struct, in which half of an older address was left, is not, words of structs whose lower half
 * is less than 1 MiB are doubtful, and no mistakes.
 *
 * All functions may be called from any thread, with any context current or none, while any stream is being
 * captured, and never disturb a capture. A graph of the driver's is one thread's at a time, as CUDA demands: so none
 * of the calls here may overlap another one that uses or changes it. docs/graphs.md explains each class, with
 * its remedy. */
#ifndef TARN_AUDIT_H
#define TARN_AUDIT_H

#include "tarn/pool.h"
#include "tarn/stats.h"
#include "tarn/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Class, number, name, whether it is a mistake, what it is. The one table of classes. The own pool is that of the
 * graph, or the one that the options of an audit name. */
#define TARN_POINTER_TABLE(X)                                                                      \
    X(TARN_POINTER_LIVE, 0, "live", false, "in a live block of the graph's own pool")              \
    X(TARN_POINTER_REUSED, 1, "reused", false,                                                     \
      "in memory of its own pool that was freed and that the graph holds: reused by design")       \
    X(TARN_POINTER_EXTERNAL, 2, "external", false,                                                 \
      "in a live block of another pool: its user keeps it as long as the graph is replayed")       \
    X(TARN_POINTER_NODE, 3, "node", false, "in what an allocation node of the graph gives")        \
    X(TARN_POINTER_FOREIGN, 4, "foreign", false, "in memory of a device that is not Tarn's")       \
    X(TARN_POINTER_PINNED, 5, "pinned", false, "in page-locked memory of the host")                \
    X(TARN_POINTER_ARGUMENT, 6, "argument", false,                                                 \
      "the argument of a host function: whatever it is, it is not the device's")                   \
    X(TARN_POINTER_DOUBTFUL, 7, "doubtful", false,                                                 \
      "perhaps no address, or one of another block: it cannot be told")                            \
    X(TARN_POINTER_KEPT, 8, "kept", false, "in a freed block that the graph's guard keeps")        \
    X(TARN_POINTER_FREED, 9, "freed", true,                                                        \
      "in memory of its own pool that was freed and that nothing keeps for the graph")             \
    X(TARN_POINTER_FREED_EXTERNAL, 10, "freed external", true, "in freed memory of another pool")  \
    X(TARN_POINTER_USED_AGAIN, 11, "used again", true,                                             \
      "in a block that was allocated behind the capture, where another one was")                   \
    X(TARN_POINTER_UNORDERED, 12, "unordered", true,                                               \
      "in a live block of another pool, whose graphs write there without any order with this one") \
    X(TARN_POINTER_BEYOND, 13, "beyond", true, "in a live block, and bytes beyond its end")        \
    X(TARN_POINTER_PAUSED, 14, "paused", true, "in a pool that is paused")                         \
    X(TARN_POINTER_UNMAPPED, 15, "unmapped", true, "one of Tarn's addresses, without memory")      \
    X(TARN_POINTER_PAGEABLE, 16, "pageable", true,                                                 \
      "in host memory that is not page-locked, or not any more: it must outlive the graph")        \
    X(TARN_POINTER_UNKNOWN, 17, "unknown", true, "in no memory that anyone knows")                 \
    X(TARN_POINTER_OVERWRITES, 18, "overwrites", false,                                            \
      "in a live block of a later graph, in memory that this graph writes, too")

typedef enum tarn_pointer_class {
#define TARN_POINTER_ENUM(name, number, text, mistake, what) name = number,
    TARN_POINTER_TABLE(TARN_POINTER_ENUM)
#undef TARN_POINTER_ENUM
} tarn_pointer_class;

#define TARN_POINTER_CLASSES 19

/* The name of a class, such as "used again", and what it means; "no class" for any other number. Static strings. */
TARN_API const char *tarn_pointer_class_name(tarn_pointer_class pointer_class);
TARN_API const char *tarn_pointer_class_sentence(tarn_pointer_class pointer_class);

/* Where in a node a pointer was found. */
typedef enum tarn_pointer_place {
    TARN_PLACE_PARAMETER = 0, /* of a kernel: index is the parameter's, offset is in it */
    TARN_PLACE_BUFFER =
        1, /* of a kernel of whose parameters only the packed buffer is known: offset in that */
    TARN_PLACE_DESTINATION = 2, /* of a copy or a set */
    TARN_PLACE_SOURCE = 3,      /* of a copy */
    TARN_PLACE_ARGUMENT = 4,    /* of a host function */
    TARN_PLACE_OPERATION = 5,   /* of a batch: index is the operation's */
    TARN_PLACE_ALLOCATED = 6,   /* what an allocation node gives */
    TARN_PLACE_FREED = 7,       /* what a free node ends */
    TARN_PLACE_MEMORY = 8,      /* no node's: at holds it, in the bytes of the pool */
} tarn_pointer_place;

#define TARN_NO_NODE UINT32_MAX

typedef struct tarn_pointer {
    tarn_pointer_class pointer_class;
    tarn_pointer_place place;
    uint32_t node;    /* index in the audit's nodes; TARN_NO_NODE: found in memory */
    uint32_t index;   /* of the parameter or operation */
    uint32_t offset;  /* in bytes, in the parameter or buffer */
    int device;       /* FOREIGN, PINNED: ordinal of the memory's device; else -1 */
    uint64_t address; /* the pointer itself */
    uint64_t bytes;   /* that the node touches from there on; 0: not known */
    uint64_t at;      /* place MEMORY: the address of the word that holds it; else 0 */

    /* The live block that contains it. FOREIGN, PINNED: where the driver's memory begins, and how long it is. Else all but
     * the pool is 0: that is whose memory it is, to be compared alone; NULL: none's. */
    tarn_block block;
    const char *pool; /* the name of that pool when the audit was made; NULL: none */
} tarn_pointer;

/* Whether all that a node names was found. */
typedef enum tarn_inspection {
    TARN_INSPECTED = 0,
    TARN_INSPECTION_NO_LAYOUT =
        1, /* a kernel: the driver does not tell how large its parameters are */
    TARN_INSPECTION_NO_BODIES =
        2, /* a conditional node whose bodies the driver does not give, nor the options */
    TARN_INSPECTION_OPAQUE =
        3, /* of a type of which nothing can be read, as an external semaphore's */
} tarn_inspection;

typedef struct tarn_audit_node {
    tarn_driver_node handle;
    /* the name of a kernel's function; NULL: it is none, or the driver does not tell */
    const char *kernel;
    int type; /* CUgraphNodeType, cudaGraphNodeType */
    tarn_inspection inspection;
    /* index of the node whose child graph or body it is in; TARN_NO_NODE: it is in none, or in a
     * body whose node the options do not name */
    uint32_t parent;
    /* its place among the nodes of its graph, in the order in which they were made */
    uint32_t ordinal;
} tarn_audit_node;

/* What an audit found, until tarn_audit_destroy; handles of nodes as long as the graph has them. */
typedef struct tarn_audit {
    size_t node_count;
    /* those of the graph, then those of its child graphs and bodies */
    const tarn_audit_node *nodes;
    size_t kernel_count;
    size_t uninspected_count; /* nodes whose inspection is not TARN_INSPECTED */

    /* Parameters that have the form of a tensor map, 128 bytes at a multiple of 64. On an H200 the first word of one is the
     * address of the tensor, and named like any other; that is not documented, so it is not to be relied on. */
    size_t tensor_map_count;

    size_t pointer_count;                /* all, those with mistakes included */
    size_t counts[TARN_POINTER_CLASSES]; /* of each class */
    size_t mistake_count;
    const tarn_pointer *mistakes; /* in order of node, then of place in it; those in memory last */
    /* all, in the same order, where list_all asked for them; else NULL */
    const tarn_pointer *pointers;
    size_t scanned_bytes; /* that scan looked through */

    /* All of the class OVERWRITES, whether they are mistakes here or not, in the same order. */
    size_t overwrite_count;
    const tarn_pointer *overwrites;
} tarn_audit;

/* A graph that is the body of a conditional node: the driver does not give it, but whoever made the node knows it
 * (phGraph_out). All bodies of a node are to be handed in, for the driver does not tell how many it has either; one whose
 * node lies in another body, behind that. */
typedef struct tarn_audit_body {
    tarn_driver_node node;   /* a conditional node of the graph; NULL: not known */
    tarn_driver_graph graph; /* the body */
} tarn_audit_body;

/* Make one with TARN_AUDIT_OPTIONS_INIT. */
typedef struct tarn_audit_options {
    size_t size; /* sizeof(tarn_audit_options), set by the INIT macro */

    /* The own pool. tarn_driver_graph_audit: NULL: those pools alone in which the graph was captured, if it was in any; and
     * no pointer is unordered. tarn_graph_audit: NULL, or the graph's. */
    tarn_pool *pool;

    /* tarn_device_mark at the end of the capture: blocks allocated since are used again. 0: for a tarn_graph that of its
     * capture, adoption or update; for others that of the first allocation behind the capture's end, outside
     * captures or in the next one, where the capture has allocated from Tarn; for what remains it is not known, and
     * a freed input whose address was used again is no mistake. TARN_NO_MARK: of a graph that was changed by hand
     * since, and names newer blocks. */
    uint64_t mark;

    const tarn_audit_body *bodies; /* of conditional nodes */
    size_t body_count;
    /* classes that are no mistakes here: 1u << class for each; they are counted, and not listed */
    uint32_t accepted;
    bool list_all; /* list every pointer, not mistakes alone */

    /* Look through the bytes of the own pool's live blocks, too, for pointers of Tarn's: words of eight bytes at multiples
     * of eight. They are copied to the host on scan_stream, which is waited for; what is freed meanwhile may be missed. */
    bool scan;
    tarn_stream scan_stream;

    /* classes that are mistakes here, besides those that always are; none that is accepted */
    uint32_t refused;
} tarn_audit_options;

#define TARN_NO_MARK UINT64_MAX

#define TARN_AUDIT_OPTIONS_INIT TARN_SIZED(tarn_audit_options)

/* Looks through a graph. Its executable is not read, the driver gives no way: after a cuGraphExecUpdate of the
 * caller's own the graph that was updated with is to be audited, by tarn_driver_graph_audit. options: NULL for all
 * as INIT has it. *audit: owned by the caller; end it with tarn_audit_destroy.
 *   INVALID_HANDLE    the graph, or the pool of the options
 *   INVALID_ARGUMENT  audit is NULL, an option is out of range, the size of the options is wrong (tarn/types.h), the
 *                     pool is not the graph's, or the graph is of another device
 *   LIMIT             2^32 nodes or more
 *   WRONG_STATE       scan_stream is being captured, or is the legacy default one while a blocking stream is
 *   HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_audit(tarn_graph *graph,
                                                      const tarn_audit_options *options,
                                                      tarn_audit **audit);

/* The same for any graph of the driver's, from any framework: a CUgraph or cudaGraph_t that lives. One that is being
 * captured is looked through on the thread that captures it, as far as it has come.
 *   INVALID_HANDLE    the device, or the pool of the options
 *   INVALID_ARGUMENT  driver_graph or audit is NULL, an option is out of range, the size of the options is wrong
 *                     (tarn/types.h), or the pool or the graph is of another device: by its kernels, for nothing else in a graph tells the device
 *   LIMIT, WRONG_STATE  as tarn_graph_audit
 *   HOST_MEMORY, DEVICE_LOST, POISONED; DRIVER: the driver refuses the graph, which it may do of one that was
 *   destroyed */
TARN_API TARN_MUST_CHECK tarn_status tarn_driver_graph_audit(tarn_device *device,
                                                             tarn_driver_graph driver_graph,
                                                             const tarn_audit_options *options,
                                                             tarn_audit **audit);
TARN_API void tarn_audit_destroy(tarn_audit *audit); /* NULL is allowed. */

/* Every block allocated on the device from now on has this sequence number or a higher one, every other a lower
 * one. Locks each pool of the device once.
 *   INVALID_HANDLE; INVALID_ARGUMENT: mark is NULL */
TARN_API TARN_MUST_CHECK tarn_status tarn_device_mark(tarn_device *device, uint64_t *mark);

/* Guards the graph: looks through it, with those options (NULL: all as INIT has it), and from now on watches each live
 * block of its device that it refers to and does not hold. What becomes of their frees, guard says; IGNORE ends the
 * guard. Memory that is not Tarn's, and blocks of other devices, are not watched. A free of a watched block locks its pool.
 *
 * What makes the graph stale: with REFUSE the first watched block that is freed, whatever is allocated there later; with
 * either kind freed, used again, paused or unmapped memory that the look finds already, and that is not accepted; and with
 * KEEP a restore that brings another block back to where a kept one is. What makes it fresh: a guard under which nothing
 * is missing, or IGNORE; and tarn_graph_update, which guards the new section likewise, without these options.
 *
 * What is kept counts as pending. It goes when all graphs that keep it are destroyed, updated, or not guarded any more, and
 * is used again once the device was waited for, by a trim for instance. Not while another thread uses the graph.
 *
 * A restore that writes a watched block, frees it or has another one come back over it takes its turn among the replays of
 * the graph's pool: it comes behind those that were launched before, and later ones come behind its copies
 * (tarn_checkpoint_restore).
 *   INVALID_HANDLE
 *   INVALID_ARGUMENT  the guard is unknown, or as tarn_graph_audit
 *   WRONG_STATE       its guard keeps freed blocks, which another guard than IGNORE would not keep any more
 *   LIMIT, HOST_MEMORY, DEVICE_LOST, POISONED, DRIVER: the guard is what it was */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_guard(tarn_graph *graph, tarn_guard guard,
                                                      const tarn_audit_options *options);

/* Whether a replay would be refused. Any thread, but not while another one guards, updates or destroys the graph.
 *   INVALID_HANDLE
 *   STALE  the sentence names the node, where in it the pointer stands, and the block */
TARN_API TARN_MUST_CHECK tarn_status tarn_graph_check(tarn_graph *graph);

/* Writes what an audit found as text: the mistakes, each with node, kernel, parameter, offset, address and block; the
 * nodes that were not inspected; the counts. As JSON: one object with the same, and all pointers where they were listed.
 * As tarn_pool_report writes.
 *   INVALID_ARGUMENT: audit is NULL, buffer is NULL and capacity is not 0, or the format is none of these */
TARN_API TARN_MUST_CHECK tarn_status tarn_audit_report(const tarn_audit *audit,
                                                       tarn_report_format format, char *buffer,
                                                       size_t capacity, size_t *length);

#ifdef __cplusplus
}
#endif
#endif
