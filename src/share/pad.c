// SPDX-License-Identifier: Apache-2.0
/* How it works. A pad is an array of cells, each in a cache line of its own. This process keeps a
 * record of each cell beside the pad: what it has signalled and waited for, which no other process
 * can change. Counts go on when a cell changes hands, since setting a word back would need a stream
 * of every process; the new owners are told where the count stands.
 *
 * The four steps of a flag go by one batch for two of them, and all steps of a barrier by one batch.
 * The records have the work before the stream does. A failed call has put nothing on the stream, and
 * the counts go back.
 *
 * Trade-offs. A cell is found by a search from the last one found, since cells are had for long. A
 * process that writes nonsense into a pad can release waits early, or never: pads are shared with
 * the one process whose work they order. */
#include "share/pad.h"

#include <stdatomic.h>
#include <string.h>

#include "base/contract.h"
#include "base/error.h"
#include "base/host.h"
#include "driver/idle.h"
#include "driver/stream.h"

/* A cell in the pad. */
struct cell {
    atomic_uint_least64_t count; /* of a narrow pad: the low half alone */
    atomic_uint_least32_t flag;
    uint32_t unused[13];
};
_Static_assert(sizeof(struct cell) == 64, "a cell is a cache line");
_Static_assert(offsetof(struct cell, flag) == 8, "the flag is where streams look for it");

static uint64_t count_address(const struct tn_pad *pad, uint32_t index)
{
    return pad->memory.address + index * sizeof(struct cell) + offsetof(struct cell, count);
}

static uint64_t flag_address(const struct tn_pad *pad, uint32_t index)
{
    return pad->memory.address + index * sizeof(struct cell) + offsetof(struct cell, flag);
}

/* The cell as processors reach it; NULL for a pad on the device. */
static struct cell *reach(const struct tn_pad *pad, uint32_t index)
{
    struct cell *cells = (struct cell *)(uintptr_t)pad->memory.address;

    return pad->memory.place == TN_WORDS_ON_HOST ? &cells[index] : NULL;
}

/* -- Pads -- */

static tarn_status check_count(uint32_t cell_count)
{
    if (cell_count == 0 || cell_count > TN_PAD_CELLS_MAX)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "a pad of %u cells: it has 1 to %d", cell_count,
                       TN_PAD_CELLS_MAX);
    return TARN_OK;
}

/* A pad without memory yet. */
static tarn_status prepare(struct tn_gpu *gpu, uint32_t cell_count, struct tn_pad **pad)
{
    struct tn_pad *made;
    bool wide = false;
    tarn_status status = check_count(cell_count);

    if (status == TARN_OK)
        status = tn_words_require(gpu, &wide);
    if (status != TARN_OK)
        return status;
    made = tn_host_alloc(1, sizeof *made);
    if (made != NULL)
        made->cells = tn_host_alloc(cell_count, sizeof *made->cells);
    if (made == NULL || made->cells == NULL) {
        tn_host_free(made);
        return tn_fail(TARN_ERR_HOST_MEMORY, "a pad of %u cells: no host memory is left",
                       cell_count);
    }
    made->gpu = gpu;
    made->wide = wide;
    made->cell_count = cell_count;
    *pad = made;
    return TARN_OK;
}

static void drop(struct tn_pad *pad)
{
    tn_host_free(pad->cells);
    tn_host_free(pad);
}

/* Zeroes on the device, written by the stream and waited for. Without the event the whole device is
 * waited for: the memory may not go while it is being written. */
static tarn_status zero_by_stream(const struct tn_pad *pad, tn_cu_stream stream)
{
    struct tn_gpu *gpu = pad->gpu;
    tn_cu_event event = NULL;
    tarn_status status = tn_event_create(gpu, stream, &event);

    if (status != TARN_OK)
        return status;
    status = tn_stream_zero(gpu, pad->memory.address, pad->memory.bytes, stream);
    if (status == TARN_OK &&
        (!tn_event_record(gpu, event, stream) || tn_event_wait(gpu, event) != TN_EVENT_DONE))
        status = tn_gpu_wait_idle(gpu);
    tn_event_destroy(gpu, event);
    return status;
}

static tarn_status zero(const struct tn_pad *pad, tn_cu_stream stream)
{
    if (pad->memory.place == TN_WORDS_ON_DEVICE)
        return zero_by_stream(pad, stream);
    memset((void *)(uintptr_t)pad->memory.address, 0, pad->memory.bytes);
    return TARN_OK;
}

tarn_status tn_pad_create(struct tn_gpu *gpu, enum tn_word_place place, uint32_t cell_count,
                          tn_cu_stream stream, struct tn_pad **pad)
{
    struct tn_pad *made;
    tarn_status status;

    if (place == TN_WORDS_ON_DEVICE && tn_stream_is_closed(gpu, stream))
        return tn_fail(
            TARN_ERR_WRONG_STATE,
            "the stream that clears a pad is being captured, or ordered with one that is");
    status = prepare(gpu, cell_count, &made);
    if (status != TARN_OK)
        return status;
    status = tn_word_memory_create(gpu, place, cell_count * sizeof(struct cell), &made->memory);
    if (status == TARN_OK) {
        status = zero(made, stream);
        if (status != TARN_OK)
            tn_word_memory_end(gpu, &made->memory);
    }
    if (status != TARN_OK) {
        drop(made);
        return status;
    }
    *pad = made;
    return TARN_OK;
}

tarn_status tn_pad_export(const struct tn_pad *pad, int *descriptor)
{
    return tn_word_memory_export(pad->gpu, &pad->memory, descriptor);
}

tarn_status tn_pad_import(struct tn_gpu *gpu, enum tn_word_place place, uint32_t cell_count,
                          int descriptor, struct tn_pad **pad)
{
    struct tn_pad *made;
    tarn_status status = prepare(gpu, cell_count, &made);

    if (status != TARN_OK)
        return status;
    status = tn_word_memory_import(gpu, place, cell_count * sizeof(struct cell), descriptor,
                                   &made->memory);
    if (status != TARN_OK) {
        drop(made);
        return status;
    }
    *pad = made;
    return TARN_OK;
}

void tn_pad_destroy(struct tn_pad *pad)
{
    if (pad == NULL)
        return;
    tn_word_memory_end(pad->gpu, &pad->memory);
    drop(pad);
}

/* -- Cells -- */

static bool is_had(const struct tn_pad *pad, struct tn_cell cell)
{
    return cell.index < pad->cell_count && cell.generation % 2 == 1 &&
           pad->cells[cell.index].generation == cell.generation; /* W4 */
}

static tarn_status refuse(struct tn_cell cell)
{
    return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                   "cell %u of generation %u is not had: it was released, or never told",
                   cell.index, cell.generation);
}

/* Whether streams may be given work with the cell. */
static tarn_status admit(const struct tn_pad *pad, struct tn_cell cell)
{
    if (!is_had(pad, cell))
        return refuse(cell);
    if (pad->cells[cell.index].is_over)
        return tn_fail(TARN_ERR_WRONG_STATE, "the other process of cell %u is gone", cell.index);
    return TARN_OK;
}

static void begin(struct tn_pad *pad, struct tn_cell cell)
{
    struct tn_cell_record *record = &pad->cells[cell.index];

    *record = (struct tn_cell_record){
        .told = cell.count, .awaited = cell.count, .generation = cell.generation};
    pad->had_count++;
    TN_ASSERT(pad->had_count <= pad->cell_count && is_had(pad, cell));
}

/* A count in full, from its word and a count that is not far from it. */
static uint64_t widen(const struct tn_pad *pad, uint64_t word, uint64_t near)
{
    if (pad->wide)
        return word;
    return near + (uint64_t)(int64_t)(int32_t)((uint32_t)word - (uint32_t)near);
}

static uint64_t read_count(const struct tn_pad *pad, uint32_t index)
{
    const struct tn_cell_record *record = &pad->cells[index];
    uint64_t near = record->told > record->awaited ? record->told : record->awaited;
    struct cell *cell = reach(pad, index);

    return cell == NULL
               ? near
               : widen(pad, atomic_load_explicit(&cell->count, memory_order_acquire), near);
}

tarn_status tn_pad_acquire(struct tn_pad *pad, struct tn_cell *cell)
{
    uint32_t index = pad->cursor;

    if (pad->had_count == pad->cell_count)
        return tn_fail(TARN_ERR_LIMIT, "no cell is free: all %u of the pad are had",
                       pad->cell_count);
    while (pad->cells[index].generation % 2 == 1)
        index = (index + 1) % pad->cell_count;
    cell->index = index;
    cell->generation = pad->cells[index].generation + 1;
    cell->count = read_count(pad, index); /* W2 */
    begin(pad, *cell);
    pad->cursor = (index + 1) % pad->cell_count;
    return TARN_OK;
}

tarn_status tn_pad_adopt(struct tn_pad *pad, struct tn_cell cell)
{
    if (cell.index >= pad->cell_count || cell.generation % 2 == 0 ||
        pad->cells[cell.index].generation % 2 == 1 ||
        cell.generation <= pad->cells[cell.index].generation)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "cell %u of generation %u cannot be taken note of: it is none of the pad, "
                       "had already, or over",
                       cell.index, cell.generation);
    begin(pad, cell);
    return TARN_OK;
}

tarn_status tn_pad_release(struct tn_pad *pad, struct tn_cell cell)
{
    struct tn_cell_record *record;

    if (!is_had(pad, cell))
        return refuse(cell);
    record = &pad->cells[cell.index];
    record->told = read_count(pad, cell.index);
    record->awaited = record->told;
    record->generation++;
    pad->had_count--;
    return TARN_OK;
}

/* -- Operations -- */

static bool is_captured(struct tn_gpu *gpu, tn_cu_stream stream, tarn_status *status)
{
    struct tn_stream_state state;

    *status = tn_stream_look(gpu, stream, TN_STREAM_STATUS, &state);
    return *status == TARN_OK && state.captured;
}

/* Gives a stream work, which the records have already. Their lock is free meanwhile: the call may
 * wait for room in the stream's queue, until another thread has ended a wait. */
static tarn_status do_words(const struct tn_pad *pad, tn_cu_stream stream, tn_cu_batch_op *ops,
                            unsigned int count)
{
    tarn_status status;

    TN_ASSERT(count > 0);
    if (pad->lock != NULL)
        tn_lock_release(pad->lock);
    status = tn_stream_do_words(pad->gpu, stream, ops, count);
    if (pad->lock != NULL)
        tn_lock_acquire(pad->lock);
    return status;
}

tarn_status tn_pad_signal(struct tn_pad *pad, tn_cu_stream stream, struct tn_cell cell,
                          uint64_t *value)
{
    struct tn_cell_record *record;
    tn_cu_batch_op op;
    bool wrote;
    tarn_status status = admit(pad, cell);

    if (status == TARN_OK && is_captured(pad->gpu, stream, &status))
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "a count is signalled on a stream that is being captured: a graph would "
                       "write the same count at each replay; raise the flag");
    if (status != TARN_OK)
        return status;
    record = &pad->cells[cell.index];
    op = tn_word_write(count_address(pad, cell.index), record->told + 1, pad->wide);
    wrote = record->writes;
    record->writes = true;
    record->told++; /* W2 */
    status = do_words(pad, stream, &op, 1);
    if (status == TARN_OK) {
        *value = record->told;
    } else {
        record->writes = wrote;
        record->told--;
    }
    return status;
}

bool tn_pad_has_reached(const struct tn_pad *pad, struct tn_cell cell, uint64_t value)
{
    if (!is_had(pad, cell) || reach(pad, cell.index) == NULL)
        return false;
    return read_count(pad, cell.index) >= value;
}

tarn_status tn_pad_wait(struct tn_pad *pad, tn_cu_stream stream, struct tn_cell cell,
                        uint64_t value)
{
    struct tn_cell_record *record;
    uint64_t before;
    bool awaited;
    tn_cu_batch_op op;
    tarn_status status = admit(pad, cell);

    if (status != TARN_OK || tn_pad_has_reached(pad, cell, value))
        return status;
    record = &pad->cells[cell.index];
    before = record->awaited;
    awaited = record->awaits;
    op = tn_word_await(count_address(pad, cell.index), value, pad->wide);
    record->awaits = true;
    if (value > before)
        record->awaited = value;
    status = do_words(pad, stream, &op, 1);
    if (status != TARN_OK) {
        record->awaited = before;
        record->awaits = awaited;
    }
    return status;
}

/* Two of the four steps: waits for one value of the flag and writes the other. */
static void add_steps(tn_cu_batch_op *ops, unsigned int *count, uint64_t flag, uint32_t from)
{
    ops[(*count)++] = tn_word_await_equal(flag, from);
    ops[(*count)++] = tn_word_write(flag, 1 - from, false);
}

/* One side's steps of a flag. */
static tarn_status step(struct tn_pad *pad, tn_cu_stream stream, struct tn_cell cell, uint32_t from)
{
    tn_cu_batch_op ops[2];
    unsigned int count = 0;
    bool *use;
    bool before;
    tarn_status status = admit(pad, cell);

    if (status != TARN_OK)
        return status;
    add_steps(ops, &count, flag_address(pad, cell.index), from); /* W3 */
    use = from == 0 ? &pad->cells[cell.index].writes : &pad->cells[cell.index].awaits;
    before = *use;
    *use = true;
    status = do_words(pad, stream, ops, count);
    if (status != TARN_OK)
        *use = before;
    return status;
}

tarn_status tn_pad_raise(struct tn_pad *pad, tn_cu_stream stream, struct tn_cell cell)
{
    return step(pad, stream, cell, 0);
}

tarn_status tn_pad_take(struct tn_pad *pad, tn_cu_stream stream, struct tn_cell cell)
{
    return step(pad, stream, cell, 1);
}

/* -- Barriers -- */

/* Checks all ends, before anything is done. */
static tarn_status admit_all(const struct tn_pad_cell *outgoing, const struct tn_pad_cell *incoming,
                             uint32_t count)
{
    tarn_status status = TARN_OK;

    if (count == 0 || count > TN_BARRIER_PEERS_MAX)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "a barrier with %u peers: it has 1 to %d", count,
                       TN_BARRIER_PEERS_MAX);
    for (uint32_t i = 0; i < count && status == TARN_OK; i++) {
        status = admit(outgoing[i].pad, outgoing[i].cell);
        if (status == TARN_OK)
            status = admit(incoming[i].pad, incoming[i].cell);
    }
    return status;
}

static struct tn_cell_record *record_of(const struct tn_pad_cell *end)
{
    return &end->pad->cells[end->cell.index];
}

static unsigned int plan_counts(const struct tn_pad_cell *outgoing,
                                const struct tn_pad_cell *incoming, uint32_t peers,
                                tn_cu_batch_op *ops)
{
    unsigned int count = 0;

    for (uint32_t i = 0; i < peers; i++)
        ops[count++] = tn_word_write(count_address(outgoing[i].pad, outgoing[i].cell.index),
                                     record_of(&outgoing[i])->told + 1, outgoing[i].pad->wide);
    for (uint32_t i = 0; i < peers; i++)
        ops[count++] = tn_word_await(count_address(incoming[i].pad, incoming[i].cell.index),
                                     record_of(&incoming[i])->awaited + 1, incoming[i].pad->wide);
    return count;
}

static unsigned int plan_flags(const struct tn_pad_cell *outgoing,
                               const struct tn_pad_cell *incoming, uint32_t peers,
                               tn_cu_batch_op *ops)
{
    unsigned int count = 0;

    for (uint32_t i = 0; i < peers; i++)
        add_steps(ops, &count, flag_address(outgoing[i].pad, outgoing[i].cell.index), 0);
    for (uint32_t i = 0; i < peers; i++)
        add_steps(ops, &count, flag_address(incoming[i].pad, incoming[i].cell.index), 1);
    return count;
}

/* One barrier further, or back again. */
static void count_barrier(const struct tn_pad_cell *outgoing, const struct tn_pad_cell *incoming,
                          uint32_t peers, uint64_t step)
{
    for (uint32_t i = 0; i < peers; i++) {
        record_of(&outgoing[i])->told += step;
        record_of(&incoming[i])->awaited += step;
    }
}

tarn_status tn_pad_barrier(tn_cu_stream stream, const struct tn_pad_cell *outgoing,
                           const struct tn_pad_cell *incoming, uint32_t count)
{
    tn_cu_batch_op ops[4 * TN_BARRIER_PEERS_MAX];
    bool wrote[TN_BARRIER_PEERS_MAX];
    bool awaited[TN_BARRIER_PEERS_MAX];
    unsigned int op_count;
    tarn_status status = admit_all(outgoing, incoming, count);
    struct tn_gpu *gpu = status == TARN_OK ? outgoing[0].pad->gpu : NULL;
    bool captured = status == TARN_OK && is_captured(gpu, stream, &status);

    _Static_assert(sizeof ops / sizeof ops[0] <= TN_WORD_OPS_MAX, "a barrier is one batch");
    if (status != TARN_OK)
        return status;
    op_count = captured ? plan_flags(outgoing, incoming, count, ops)
                        : plan_counts(outgoing, incoming, count, ops);
    for (uint32_t i = 0; i < count; i++) {
        wrote[i] = record_of(&outgoing[i])->writes;
        awaited[i] = record_of(&incoming[i])->awaits;
        record_of(&outgoing[i])->writes = true;
        record_of(&incoming[i])->awaits = true;
    }
    if (!captured)
        count_barrier(outgoing, incoming, count, 1);
    status = do_words(outgoing[0].pad, stream, ops, op_count);
    if (status != TARN_OK && !captured)
        count_barrier(outgoing, incoming, count, UINT64_MAX);
    for (uint32_t i = 0; status != TARN_OK && i < count; i++) {
        record_of(&outgoing[i])->writes = wrote[i];
        record_of(&incoming[i])->awaits = awaited[i];
    }
    return status;
}

/* -- After a death -- */

/* By a processor. A count that has come further stays. */
static void finish_here(const struct tn_pad *pad, uint32_t index)
{
    const struct tn_cell_record *record = &pad->cells[index];
    struct cell *cell = reach(pad, index);

    if (record->awaits && read_count(pad, index) < record->awaited)
        atomic_store_explicit(&cell->count, pad->wide ? record->awaited : (uint32_t)record->awaited,
                              memory_order_release);
    if (record->awaits || record->writes)
        atomic_store_explicit(&cell->flag, record->awaits ? 1 : 0, memory_order_release);
}

/* By a stream: the highest count awaited ends every wait. */
static tarn_status finish_by_stream(const struct tn_pad *pad, uint32_t index, tn_cu_stream stream)
{
    const struct tn_cell_record *record = &pad->cells[index];
    tn_cu_batch_op ops[2];
    unsigned int count = 0;

    if (record->awaits)
        ops[count++] = tn_word_write(count_address(pad, index), record->awaited, pad->wide);
    if (record->awaits || record->writes)
        ops[count++] = tn_word_write(flag_address(pad, index), record->awaits ? 1 : 0, false);
    return count == 0 ? TARN_OK : tn_stream_do_words(pad->gpu, stream, ops, count);
}

tarn_status tn_pad_finish(struct tn_pad *pad, struct tn_cell cell, tn_cu_stream stream)
{
    tarn_status status = TARN_OK;

    if (!is_had(pad, cell))
        return refuse(cell);
    TN_ASSERT(!pad->cells[cell.index].awaits || !pad->cells[cell.index].writes); /* W1 */
    if (pad->memory.place == TN_WORDS_ON_HOST)
        finish_here(pad, cell.index);
    else
        status = finish_by_stream(pad, cell.index, stream);
    if (status == TARN_OK)
        pad->cells[cell.index].is_over = true;
    return status;
}

/* -- Checks -- */

static tarn_status check_cell(const struct tn_pad *pad, uint32_t index)
{
    const struct tn_cell_record *record = &pad->cells[index];
    const struct cell *cell = reach(pad, index);
    uint64_t count = read_count(pad, index);
    uint32_t flag = cell == NULL ? 0 : atomic_load(&cell->flag);

    if (record->writes && !record->is_over && count > record->told)
        return tn_fail(TARN_ERR_CORRUPT, "W2: the count of cell %u is %llu, and %llu was signalled",
                       index, (unsigned long long)count, (unsigned long long)record->told);
    if (flag > 1)
        return tn_fail(TARN_ERR_CORRUPT, "W3: the flag of cell %u is %u", index, flag);
    return TARN_OK;
}

tarn_status tn_pad_check(const struct tn_pad *pad)
{
    uint32_t had = 0;
    tarn_status status = TARN_OK;

    for (uint32_t i = 0; i < pad->cell_count && status == TARN_OK; i++) {
        had += pad->cells[i].generation % 2;
        status = check_cell(pad, i);
    }
    if (status == TARN_OK && had != pad->had_count)
        return tn_fail(TARN_ERR_CORRUPT, "W4: %u cells are had, and %u are counted", had,
                       pad->had_count);
    return status;
}
