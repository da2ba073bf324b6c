// SPDX-License-Identifier: Apache-2.0
/* PyTorch's allocator while a program is recorded (record_programs.py), through
 * torch.cuda.memory.CUDAPluggableAllocator.
 *
 * Every call becomes an entry of a log in memory: its kind, bytes, stream, thread and block. The log is
 * written to a file at the end, and log.py makes a trace of the file.
 *
 * Memory comes from slabs of cuMemAlloc, which stay until the process ends. A slab is a list of blocks by
 * address. Small requests have slabs of their own. A request takes the smallest free block that its stream
 * may have. A free block names the stream of its last work; neighbours that differ become one block of
 * nobody. Blocks of another stream, or of nobody, are free for all after the device has been synchronized.
 *
 * One mutex guards everything. A failure prints a sentence and aborts: PyTorch does not look for NULL.
 *
 * Trade-offs: the free blocks are one list, and a search reads all of it. Recorded programs leave some
 * hundred free blocks. The library needs a C compiler alone: it declares the few driver calls itself, and
 * loads the driver at run time. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#define EXPORT __attribute__((visibility("default")))
#define MIB ((uint64_t)1 << 20)
#define SMALL_MAX MIB /* larger requests are placed among large blocks */
#define SMALL_SLAB                                                                                 \
    (64 * MIB) /* few are needed: small blocks are some percent of a program's memory */
#define LARGE_SLAB (1024 * MIB)         /* of the second large slab and later ones */
#define BLOCK_ALIGNMENT ((uint64_t)512) /* PyTorch's own */

enum { BUCKETS = 1 << 16 };
enum entry_kind { ENTRY_ALLOCATE, ENTRY_FREE, ENTRY_USE, ENTRY_STEP };

/* As log.py reads it. */
struct entry {
    uint64_t bytes;
    uint64_t stream;
    uint32_t block;
    uint16_t thread;
    uint16_t kind;
};
_Static_assert(sizeof(struct entry) == 24, "log.py reads entries of 24 bytes");

/* Whose work a free block may still have. */
enum owner { OWNER_NONE, OWNER_STREAM, OWNER_MIXED };

struct block {
    uint64_t address;
    uint64_t bytes;
    struct block *before; /* in its slab, by address; NULL: the first */
    struct block *after;
    struct block *previous; /* in the list of free blocks */
    struct block *next;     /* there, or in the bucket of live blocks */
    uint64_t stream;
    enum owner owner;
    uint32_t number; /* of a live block: in the log */
    bool large;
    bool live;
};

struct driver {
    int (*device_get)(int *device, int ordinal);
    int (*context_retain)(void **context, int device);
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*context_synchronize)(void);
    int (*allocate)(uint64_t *address, size_t bytes);
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct driver driver;
static void *context;
static uint64_t next_large_slab;
static uint64_t slab_bytes;
static uint64_t synchronizations;
static struct block *free_blocks[2]; /* small, large */
static struct block *buckets[BUCKETS];
static struct entry *entries;
static size_t entry_count;
static size_t entry_room;
static uint32_t block_count;
static uint16_t thread_count;
static _Thread_local uint16_t own_thread; /* from 1; 0: this thread has not called yet */

static _Noreturn void fail(const char *what, int result)
{
    (void)fprintf(stderr, "recorder: %s (%d)\n", what, result);
    abort();
}

/* ---- the log ------------------------------------------------------------------------------- */

static void log_entry(enum entry_kind kind, uint64_t bytes, void *stream, uint32_t block)
{
    if (own_thread == 0)
        own_thread = ++thread_count;
    if (entry_count == entry_room) {
        entry_room = entry_room * 2 + 65536;
        entries = realloc(entries, entry_room * sizeof *entries);
        if (entries == NULL)
            fail("no host memory for the log", 0);
    }
    entries[entry_count++] = (struct entry){.bytes = bytes,
                                            .stream = (uintptr_t)stream,
                                            .block = block,
                                            .thread = own_thread,
                                            .kind = (uint16_t)kind};
}

/* ---- the driver ---------------------------------------------------------------------------- */

/* Makes the context of PyTorch current: a thread that has not worked yet has none. */
static void enter(int ordinal)
{
    int device = 0;
    int result = 0;

    if (context == NULL) {
        result = driver.device_get(&device, ordinal);
        if (result == 0)
            result = driver.context_retain(&context, device);
    }
    if (result == 0)
        result = driver.context_push(context);
    if (result != 0)
        fail("the device's context cannot be had", result);
}

static void leave(void)
{
    void *popped = NULL;

    (void)driver.context_pop(&popped);
}

/* ---- free blocks --------------------------------------------------------------------------- */

static void list_free(struct block *block)
{
    struct block **head = &free_blocks[block->large];

    block->live = false;
    block->previous = NULL;
    block->next = *head;
    if (*head != NULL)
        (*head)->previous = block;
    *head = block;
}

static void unlist_free(struct block *block)
{
    if (block->previous != NULL)
        block->previous->next = block->next;
    else
        free_blocks[block->large] = block->next;
    if (block->next != NULL)
        block->next->previous = block->previous;
}

/* The smallest that fits: of those that the stream may have, or of all. */
static struct block *find_free(bool large, uint64_t bytes, uint64_t stream, bool of_all)
{
    struct block *best = NULL;

    for (struct block *block = free_blocks[large]; block != NULL; block = block->next) {
        bool allowed = of_all || block->owner == OWNER_NONE ||
                       (block->owner == OWNER_STREAM && block->stream == stream);

        if (allowed && block->bytes >= bytes && (best == NULL || block->bytes < best->bytes))
            best = block;
    }
    return best;
}

static void release_all(void)
{
    for (int large = 0; large < 2; large++) {
        for (struct block *block = free_blocks[large]; block != NULL; block = block->next)
            block->owner = OWNER_NONE;
    }
    synchronizations++;
}

static struct block *block_create(struct block content)
{
    struct block *block = malloc(sizeof *block);

    if (block == NULL)
        fail("no host memory for a block", 0);
    *block = content;
    return block;
}

/* Leaves the block with as many bytes, and frees the rest. */
static void split(struct block *block, uint64_t bytes)
{
    struct block *rest;

    if (block->bytes == bytes)
        return;
    rest = block_create(*block);
    rest->address += bytes;
    rest->bytes -= bytes;
    rest->before = block;
    if (rest->after != NULL)
        rest->after->before = rest;
    block->after = rest;
    block->bytes = bytes;
    list_free(rest);
}

/* Adds the block behind to this one. Neither is in a list. */
static void join(struct block *block, struct block *behind)
{
    if (block->owner == OWNER_NONE) {
        block->owner = behind->owner;
        block->stream = behind->stream;
    } else if (behind->owner != OWNER_NONE &&
               (behind->owner != block->owner || behind->stream != block->stream)) {
        block->owner = OWNER_MIXED;
    }
    block->bytes += behind->bytes;
    block->after = behind->after;
    if (block->after != NULL)
        block->after->before = block;
    free(behind);
}

static void give_back(struct block *block)
{
    if (block->after != NULL && !block->after->live) {
        unlist_free(block->after);
        join(block, block->after);
    }
    if (block->before != NULL && !block->before->live) {
        struct block *before = block->before;

        unlist_free(before);
        join(before, block);
        block = before;
    }
    list_free(block);
}

static struct block *slab_create(bool large, uint64_t bytes)
{
    uint64_t slab = large ? next_large_slab : SMALL_SLAB;
    uint64_t address = 0;
    int result;

    bytes = (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    slab = slab > bytes ? slab : bytes;
    result = driver.allocate(&address, slab);
    if (result != 0 && slab > bytes) {
        slab = bytes;
        result = driver.allocate(&address, slab);
    }
    if (result != 0) {
        (void)fprintf(stderr, "recorder: %llu MiB more than %llu MiB\n",
                      (unsigned long long)(slab / MIB), (unsigned long long)(slab_bytes / MIB));
        fail("the device has no memory", result);
    }
    if (large)
        next_large_slab = LARGE_SLAB;
    slab_bytes += slab;
    return block_create((struct block){.address = address, .bytes = slab, .large = large});
}

/* A block that is in no list. */
static struct block *take(uint64_t bytes, uint64_t stream, int ordinal)
{
    bool large = bytes > SMALL_MAX;
    struct block *block = find_free(large, bytes, stream, false);

    if (block == NULL) {
        enter(ordinal);
        block = find_free(large, bytes, stream, true);
        if (block != NULL) {
            int result = driver.context_synchronize();

            if (result != 0)
                fail("the device cannot be synchronized", result);
            release_all();
        }
        if (block == NULL) {
            block = slab_create(large, bytes);
            list_free(block);
        }
        leave();
    }
    unlist_free(block);
    split(block, bytes);
    return block;
}

/* ---- live blocks --------------------------------------------------------------------------- */

static struct block **bucket_of(uint64_t address)
{
    return &buckets[(address / BLOCK_ALIGNMENT * UINT64_C(0x9e3779b97f4a7c15)) >> 48];
}

/* Where the pointer to the block is. */
static struct block **find_live(const void *address)
{
    struct block **link = bucket_of((uintptr_t)address);

    while (*link != NULL && (*link)->address != (uintptr_t)address)
        link = &(*link)->next;
    return link;
}

/* ---- for PyTorch --------------------------------------------------------------------------- */

EXPORT void *recorder_alloc(ssize_t bytes, int ordinal, void *stream)
{
    struct block **bucket;
    struct block *block;

    if (bytes <= 0)
        return NULL;
    (void)pthread_mutex_lock(&mutex);
    block = take(((uint64_t)bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT,
                 (uintptr_t)stream, ordinal);
    block->live = true;
    block->owner = OWNER_STREAM;
    block->stream = (uintptr_t)stream;
    block->number = block_count++;
    bucket = bucket_of(block->address);
    block->next = *bucket;
    *bucket = block;
    log_entry(ENTRY_ALLOCATE, (uint64_t)bytes, stream, block->number);
    (void)pthread_mutex_unlock(&mutex);
    return (void *)(uintptr_t)block->address;
}

EXPORT void recorder_free(void *address, ssize_t bytes, int ordinal, void *stream)
{
    struct block **link;
    struct block *block;

    (void)bytes;
    (void)ordinal;
    if (address == NULL)
        return;
    (void)pthread_mutex_lock(&mutex);
    link = find_live(address);
    block = *link;
    if (block == NULL)
        fail("a block is freed that is not live", 0);
    *link = block->next;
    log_entry(ENTRY_FREE, 0, stream, block->number);
    give_back(block);
    (void)pthread_mutex_unlock(&mutex);
}

EXPORT void recorder_record_stream(void *address, void *stream)
{
    struct block *block;

    (void)pthread_mutex_lock(&mutex);
    block = address != NULL ? *find_live(address) : NULL;
    if (block != NULL && block->stream != (uintptr_t)stream) {
        block->owner = OWNER_MIXED;
        log_entry(ENTRY_USE, 0, stream, block->number);
    }
    (void)pthread_mutex_unlock(&mutex);
}

/* ---- for the script that records ----------------------------------------------------------- */

static void *symbol(void *library, const char *name)
{
    void *found = dlsym(library, name);

    if (found == NULL)
        (void)fprintf(stderr, "recorder: the driver has no %s\n", name);
    return found;
}

/* Loads the driver, before anything is allocated. The first large slab has that many bytes. False where
 * the driver cannot be loaded. */
EXPORT bool recorder_open(const char *library_name, uint64_t large_bytes)
{
    void *library = dlopen(library_name, RTLD_NOW | RTLD_GLOBAL);
    int (*initialize)(unsigned flags);

    if (library == NULL) {
        (void)fprintf(stderr, "recorder: %s\n", dlerror());
        return false;
    }
    next_large_slab = large_bytes;
    *(void **)&initialize = symbol(library, "cuInit");
    *(void **)&driver.device_get = symbol(library, "cuDeviceGet");
    *(void **)&driver.context_retain = symbol(library, "cuDevicePrimaryCtxRetain");
    *(void **)&driver.context_push = symbol(library, "cuCtxPushCurrent_v2");
    *(void **)&driver.context_pop = symbol(library, "cuCtxPopCurrent_v2");
    *(void **)&driver.context_synchronize = symbol(library, "cuCtxSynchronize");
    *(void **)&driver.allocate = symbol(library, "cuMemAlloc_v2");
    return initialize != NULL && driver.device_get != NULL && driver.context_retain != NULL &&
           driver.context_push != NULL && driver.context_pop != NULL &&
           driver.context_synchronize != NULL && driver.allocate != NULL && initialize(0) == 0;
}

EXPORT void recorder_step(void)
{
    (void)pthread_mutex_lock(&mutex);
    log_entry(ENTRY_STEP, 0, NULL, 0);
    (void)pthread_mutex_unlock(&mutex);
}

/* The bytes of all slabs. */
EXPORT uint64_t recorder_slab_bytes(void)
{
    return slab_bytes;
}

/* How often a stream got memory of others, for which the device was synchronized. */
EXPORT uint64_t recorder_synchronizations(void)
{
    return synchronizations;
}

/* Writes the log. False where the file cannot be written. */
EXPORT bool recorder_write(const char *path)
{
    FILE *file = fopen(path, "wb");
    bool good = file != NULL;

    if (file == NULL)
        return false;
    (void)pthread_mutex_lock(&mutex);
    good = fwrite(entries, sizeof *entries, entry_count, file) == entry_count;
    (void)pthread_mutex_unlock(&mutex);
    return fclose(file) == 0 && good;
}
