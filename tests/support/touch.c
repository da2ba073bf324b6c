// SPDX-License-Identifier: Apache-2.0
/* The kernel's twin runs on the simulator's worker threads: it keeps the first mismatch behind a
 * lock, and whoever drives the model asks for it when the work is done. */
#include "support/touch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/fake_tool.h"

enum { EDGE_WORDS = 16, STRIDE_BYTES = 256 << 10 };

static tn_cu_function kernel;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool has_mismatch;
static char mismatch[200];

/* The simulator runs the twin instead. */
static const char kernel_ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry tarn_test_touch(.param .u64 address, .param .u64 bytes, .param .u64 serial,\n"
    "    .param .u32 value, .param .u32 next, .param .u32 flags)\n"
    "{ ret; }\n";

enum { KNOWN = 1, WRITES = 2 };

static uint32_t pattern(uint32_t value, size_t word)
{
    return value + (uint32_t)word * 2654435761U; /* Knuth's multiplicative hash */
}

static void report(uint64_t serial, const uint32_t *words, size_t word, uint32_t expected)
{
    pthread_mutex_lock(&lock);
    if (!has_mismatch)
        (void)snprintf(mismatch, sizeof mismatch,
                       "word %zu of block %llu at %p is %#x, expected %#x", word,
                       (unsigned long long)serial, (const void *)words, words[word], expected);
    has_mismatch = true;
    pthread_mutex_unlock(&lock);
}

struct visit {
    uint32_t *words;
    uint64_t serial;
    uint32_t value;
    uint32_t next;
    uint32_t flags;
    bool is_bad;
};

static void visit_word(struct visit *visit, size_t word)
{
    uint32_t expected = pattern(visit->value, word);

    if ((visit->flags & KNOWN) != 0 && visit->words[word] != expected && !visit->is_bad) {
        report(visit->serial, visit->words, word, expected);
        visit->is_bad = true;
    }
    if ((visit->flags & WRITES) != 0)
        visit->words[word] = pattern(visit->next, word);
}

static struct fake_tool tool; /* where one is told of blocks */

/* What a tool refuses of all that correct programs touch would be a false alarm. */
static void ask_tool(const struct visit *visit, uint64_t bytes)
{
    if (tool.library == NULL || bytes == 0 || tool.allows((uint64_t)(uintptr_t)visit->words, bytes))
        return;
    pthread_mutex_lock(&lock);
    has_mismatch = true;
    (void)snprintf(mismatch, sizeof mismatch,
                   "the tool refuses some of the %llu bytes of block %llu at 0x%llx",
                   (unsigned long long)bytes, (unsigned long long)visit->serial,
                   (unsigned long long)(uintptr_t)visit->words);
    pthread_mutex_unlock(&lock);
}

static void touch_twin(const tarn_sim_launch *launch, void *const *params)
{
    struct visit visit = {.is_bad = false};
    uint64_t bytes;
    size_t count;
    size_t last;

    (void)launch;
    memcpy(&visit.words, params[0], sizeof visit.words);
    memcpy(&bytes, params[1], sizeof bytes);
    memcpy(&visit.serial, params[2], sizeof visit.serial);
    memcpy(&visit.value, params[3], sizeof visit.value);
    memcpy(&visit.next, params[4], sizeof visit.next);
    memcpy(&visit.flags, params[5], sizeof visit.flags);
    ask_tool(&visit, bytes);
    count = bytes / sizeof(uint32_t);
    last = count > EDGE_WORDS ? count - EDGE_WORDS : 0;
    for (size_t word = 0; word < count && word < EDGE_WORDS; word++)
        visit_word(&visit, word);
    for (size_t word = STRIDE_BYTES / sizeof(uint32_t); word < last;
         word += STRIDE_BYTES / sizeof(uint32_t))
        visit_word(&visit, word);
    for (size_t word = last > EDGE_WORDS ? last : EDGE_WORDS; word < count; word++)
        visit_word(&visit, word);
}

void touch_relax(bool relaxed)
{
    tn_cu_capture_mode mode = relaxed ? TN_CU_CAPTURE_MODE_RELAXED : TN_CU_CAPTURE_MODE_GLOBAL;

    CU_OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
}

void touch_start(void)
{
    tn_cu_module module;

    ck_assert_int_eq(setenv("TARN_SIM_DEVICES", "2", 0), 0);
    test_start();
    if (kernel != NULL)
        return;
    ck_assert(test_is_simulated());
    ck_assert_int_eq(sim.register_kernel("tarn_test_touch", touch_twin), 0);
    CU_OK(cu.cuModuleLoadData(&module, kernel_ptx));
    CU_OK(cu.cuModuleGetFunction(&kernel, module, "tarn_test_touch"));
    (void)fake_tool_find(&tool);
}

int touch_device_count(void)
{
    int count = 0;

    CU_OK(cu.cuDeviceGetCount(&count));
    return count;
}

void touch(tn_cu_stream stream, const struct touch *what)
{
    uint64_t bytes = what->bytes;
    uint64_t serial = what->serial;
    uint32_t flags = (what->known ? KNOWN : 0U) | (what->writes ? WRITES : 0U);
    void *address = what->address;
    uint32_t value = what->value;
    uint32_t next = what->next;

    CU_OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream,
                            (void *[]){&address, &bytes, &serial, &value, &next, &flags}, NULL));
}

const char *touch_mismatch(void)
{
    static _Thread_local char copy[sizeof mismatch];
    bool found;

    pthread_mutex_lock(&lock);
    found = has_mismatch;
    has_mismatch = false;
    memcpy(copy, mismatch, sizeof copy);
    pthread_mutex_unlock(&lock);
    return found ? copy : NULL;
}

tn_cu_event touch_mark(tn_cu_stream stream)
{
    tn_cu_event mark = NULL;

    CU_OK(cu.cuEventCreate(&mark, TN_CU_EVENT_DISABLE_TIMING));
    CU_OK(cu.cuEventRecord(mark, stream));
    return mark;
}

bool touch_is_passed(tn_cu_event mark)
{
    tn_cu_result result = cu.cuEventQuery(mark);

    ck_assert(result == TN_CUDA_SUCCESS || result == TN_CUDA_ERROR_NOT_READY);
    return result == TN_CUDA_SUCCESS;
}

void touch_forget(tn_cu_event mark)
{
    if (mark != NULL)
        CU_OK(cu.cuEventDestroy(mark));
}

void touch_synchronize(tn_cu_stream stream)
{
    tn_cu_capture_status status = TN_CU_CAPTURE_STATUS_NONE;

    CU_OK(cu.cuStreamIsCapturing(stream, &status));
    if (status == TN_CU_CAPTURE_STATUS_NONE) /* else just begun, by the call that has returned */
        CU_OK(cu.cuStreamSynchronize(stream));
}

void touch_await(tn_cu_event mark)
{
    CU_OK(cu.cuEventSynchronize(mark));
}

void touch_come_after(tn_cu_stream stream, tn_cu_event mark)
{
    if (mark != NULL)
        CU_OK(cu.cuStreamWaitEvent(stream, mark, 0));
}

void touch_break(tn_cu_stream stream)
{
    ck_assert_int_ne(cu.cuStreamSynchronize(stream), TN_CUDA_SUCCESS);
}

tn_cu_graphexec touch_instantiate(tn_cu_graph graph)
{
    tn_cu_graphexec exec = NULL;

    CU_OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

void touch_launch(tn_cu_graphexec exec, tn_cu_stream stream)
{
    CU_OK(cu.cuGraphLaunch(exec, stream));
}

void touch_end_exec(tn_cu_graphexec exec)
{
    CU_OK(cu.cuGraphExecDestroy(exec));
}
