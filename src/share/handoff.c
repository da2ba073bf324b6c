// SPDX-License-Identifier: Apache-2.0
/* How it works. A stream writes the word of both and the word of its own process in one batch of the
 * driver, and begins the batch with a wait where a former write of the slot is still to come. So one
 * word per slot counts the writes of many streams.
 *
 * Trade-offs. Both memories have at least 2 MiB, the driver's least, and come with the first call
 * that has a stream. Words of 32 bits suffice, since a slot's generations end before they wrap. */
#include "share/handoff.h"

#include <stdatomic.h>
#include <string.h>

#include "base/contract.h"
#include "base/error.h"
#include "driver/stream.h"

/* A slot's words in the memory of both. */
struct words {
    atomic_uint_least32_t words[2]; /* enum tn_handoff_word */
};
_Static_assert(sizeof(struct words) == 8, "a slot's words are where streams look for them");

static atomic_uint_least32_t *word_of(const struct tn_handoff *handoff, enum tn_handoff_word word,
                                      uint32_t slot)
{
    struct words *words = (struct words *)(uintptr_t)handoff->both.address;

    return &words[slot].words[word];
}

static atomic_uint_least32_t *passed_of(const struct tn_handoff *handoff, uint32_t slot)
{
    return (atomic_uint_least32_t *)(uintptr_t)handoff->own.address + slot;
}

static uint64_t address_of(const atomic_uint_least32_t *word)
{
    return (uint64_t)(uintptr_t)word;
}

static bool has_reached(const atomic_uint_least32_t *word, uint32_t value)
{
    return (int32_t)(atomic_load_explicit(word, memory_order_acquire) - value) >= 0;
}

static tarn_status make_zeros(struct tn_gpu *gpu, uint64_t bytes, struct tn_word_memory *memory)
{
    bool wide;
    tarn_status status = tn_words_require(gpu, &wide);

    if (status == TARN_OK)
        status = tn_word_memory_create(gpu, TN_WORDS_ON_HOST, bytes, memory);
    if (status == TARN_OK)
        memset((void *)(uintptr_t)memory->address, 0, memory->bytes);
    return status;
}

static void end(struct tn_gpu *gpu, struct tn_word_memory *memory)
{
    if (memory->address != 0)
        tn_word_memory_end(gpu, memory);
    *memory = (struct tn_word_memory){.address = 0};
}

tarn_status tn_handoff_make_own(struct tn_gpu *gpu, uint32_t slot_count, struct tn_handoff *handoff)
{
    struct tn_word_memory made;
    tarn_status status;

    TN_ASSERT(slot_count > 0);
    if (handoff->own.address != 0)
        return TARN_OK;
    status = make_zeros(gpu, slot_count * sizeof(atomic_uint_least32_t), &made);
    if (status == TARN_OK)
        handoff->own = made;
    return status;
}

tarn_status tn_handoff_make(struct tn_gpu *gpu, uint32_t slot_count, struct tn_handoff *handoff,
                            int *descriptor)
{
    struct tn_word_memory made;
    tarn_status status;

    TN_ASSERT(slot_count > 0 && handoff->both.address == 0);
    status = make_zeros(gpu, slot_count * sizeof(struct words), &made);
    if (status != TARN_OK)
        return status;
    status = tn_word_memory_export(gpu, &made, descriptor);
    if (status == TARN_OK)
        handoff->both = made;
    else
        end(gpu, &made);
    return status;
}

tarn_status tn_handoff_open(struct tn_gpu *gpu, uint32_t slot_count, struct tn_handoff *handoff,
                            int descriptor)
{
    struct tn_word_memory made;
    tarn_status status;

    TN_ASSERT(slot_count > 0 && handoff->both.address == 0);
    status = tn_word_memory_import(gpu, TN_WORDS_ON_HOST, slot_count * sizeof(struct words),
                                   descriptor, &made);
    if (status == TARN_OK)
        handoff->both = made;
    return status;
}

void tn_handoff_fini(struct tn_gpu *gpu, struct tn_handoff *handoff)
{
    end(gpu, &handoff->both);
    end(gpu, &handoff->own);
}

tarn_status tn_handoff_admit(struct tn_gpu *gpu, tn_cu_stream stream)
{
    struct tn_stream_state state;
    tarn_status status = tn_stream_look(gpu, stream, TN_STREAM_STATUS, &state);

    if (status == TARN_OK && state.captured)
        return tn_fail(TARN_ERR_WRONG_STATE,
                       "a share is ordered by a stream that is being captured: a graph would write "
                       "and wait for the same lease at each replay");
    return status;
}

tarn_status tn_handoff_write(struct tn_gpu *gpu, const struct tn_handoff *handoff,
                             tn_cu_stream stream, enum tn_handoff_word word, uint32_t slot,
                             uint32_t generation, uint32_t number)
{
    tn_cu_batch_op ops[3];
    unsigned int count = 0;
    const atomic_uint_least32_t *passed = passed_of(handoff, slot);

    TN_ASSERT(handoff->own.address != 0 && (generation == 0 || handoff->both.address != 0));
    TN_ASSERT(generation <= TN_SHARE_GENERATION_MAX); /* L7 */
    if (!has_reached(passed, number - 1))
        ops[count++] = tn_word_await(address_of(passed), number - 1, false);
    if (generation > 0)
        ops[count++] = tn_word_write(address_of(word_of(handoff, word, slot)), generation, false);
    ops[count++] = tn_word_write(address_of(passed), number, false);
    return tn_stream_do_words(gpu, stream, ops, count);
}

tarn_status tn_handoff_wait(struct tn_gpu *gpu, const struct tn_handoff *handoff,
                            tn_cu_stream stream, uint32_t slot, uint32_t generation)
{
    const atomic_uint_least32_t *word = word_of(handoff, TN_HANDOFF_BEGINS, slot);
    tn_cu_batch_op op;

    TN_ASSERT(handoff->both.address != 0 && generation <= TN_SHARE_GENERATION_MAX);
    if (has_reached(word, generation))
        return TARN_OK;
    op = tn_word_await(address_of(word), generation, false);
    return tn_stream_do_words(gpu, stream, &op, 1);
}

bool tn_handoff_is_told(const struct tn_handoff *handoff, enum tn_handoff_word word, uint32_t slot,
                        uint32_t generation)
{
    return handoff->both.address != 0 && has_reached(word_of(handoff, word, slot), generation);
}

bool tn_handoff_has_passed(const struct tn_gpu *gpu, const struct tn_handoff *handoff,
                           uint32_t slot, uint32_t number)
{
    TN_ASSERT(number == 0 || handoff->own.address != 0);
    return handoff->own.address == 0 || has_reached(passed_of(handoff, slot), number) ||
           tn_gpu_is_lost(gpu);
}

void tn_handoff_finish(const struct tn_handoff *handoff, uint32_t slot, uint32_t generation)
{
    TN_ASSERT(handoff->both.address != 0);
    if (!has_reached(word_of(handoff, TN_HANDOFF_BEGINS, slot), generation))
        atomic_store_explicit(word_of(handoff, TN_HANDOFF_BEGINS, slot), generation,
                              memory_order_release);
}
