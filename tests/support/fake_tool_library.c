// SPDX-License-Identifier: Apache-2.0
/* The library of support/fake_tool.h. Regions are few: arrays are searched from end to end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/nvtx.h"
#include "support/fake_tool.h"

enum { HEAPS_MAX = 64, REGIONS_MAX = 1 << 16 };

struct bytes {
    uint64_t base;
    uint64_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bytes heaps[HEAPS_MAX]; /* bytes 0: none */
static struct bytes regions[REGIONS_MAX];
static uint64_t region_count;
static struct fake_tool_facts facts;
static char domain;

enum { COUNTERS_MAX = 256, RANGES_MAX = 1024, NAME_BYTES = 128 };

static struct {
    char name[NAME_BYTES];
    int64_t value;
    bool has_value;
} counters[COUNTERS_MAX];
static char range_names[RANGES_MAX][NAME_BYTES]; /* of the first ones */

int InitializeInjectionNvtx2(tn_nvtx_get_table get_table);
int InitializeInjectionNvtxExtension(tn_nvtx_extension *extension);
void fake_tool_facts(struct fake_tool_facts *to);
bool fake_tool_allows(uint64_t address, uint64_t bytes);
bool fake_tool_nearest(uint64_t address, uint64_t *base, uint64_t *bytes);
bool fake_tool_value(const char *text, int64_t *value);
uint64_t fake_tool_count_ranges(const char *name);

static bool is(const char *how)
{
    const char *chosen = getenv(FAKE_TOOL_VARIABLE);

    return chosen != NULL && strcmp(chosen, how) == 0;
}

static void mistake(const char *what, uint64_t base)
{
    facts.mistakes += 1;
    (void)fprintf(stderr, "fake tool: %s: 0x%llx\n", what, (unsigned long long)base);
    if (is("stop"))
        abort();
}

static bool overlap(struct bytes a, struct bytes b)
{
    return a.base < b.base + b.bytes && b.base < a.base + a.bytes;
}

/* The heap that has the address; NULL: none. */
static struct bytes *find_heap(uint64_t address)
{
    for (int i = 0; i < HEAPS_MAX; i++) {
        if (address - heaps[i].base < heaps[i].bytes)
            return &heaps[i];
    }
    return NULL;
}

static void *register_heap(void *of, const tn_nvtx_heap *heap)
{
    const tn_nvtx_addresses *at = heap->specific;
    struct bytes *free_heap = NULL;

    if (is("heap"))
        return NULL;
    pthread_mutex_lock(&lock);
    if (of != &domain || heap->compatible != TN_NVTX_MEMORY_COMPATIBLE ||
        heap->bytes != sizeof *heap || heap->usage != TN_NVTX_USAGE_SUB_ALLOCATOR ||
        heap->type != TN_NVTX_TYPE_VIRTUAL_ADDRESS || heap->specific_bytes != sizeof *at)
        mistake("a heap that is none", (uintptr_t)at->base);
    for (int i = 0; i < HEAPS_MAX; i++) {
        if (heaps[i].bytes == 0)
            free_heap = &heaps[i];
        else if (overlap(heaps[i], (struct bytes){(uintptr_t)at->base, at->bytes}))
            mistake("a heap over another one", (uintptr_t)at->base);
    }
    if (free_heap != NULL)
        *free_heap = (struct bytes){(uintptr_t)at->base, at->bytes};
    facts.heaps += 1;
    pthread_mutex_unlock(&lock);
    return free_heap;
}

static void unregister_heap(void *of, void *heap)
{
    struct bytes *ended = heap;

    pthread_mutex_lock(&lock);
    if (of != &domain || ended < heaps || ended >= heaps + HEAPS_MAX || ended->bytes == 0)
        mistake("no heap ends", 0);
    for (uint64_t i = 0; i < region_count;) {
        if (overlap(regions[i], *ended))
            regions[i] = regions[--region_count];
        else
            i += 1;
    }
    *ended = (struct bytes){0, 0};
    facts.heaps -= 1;
    pthread_mutex_unlock(&lock);
}

static void add_region(struct bytes *heap, struct bytes region)
{
    if (heap == NULL || region.base < heap->base ||
        region.base + region.bytes > heap->base + heap->bytes || region.bytes == 0)
        mistake("a region outside its heap", region.base);
    for (uint64_t i = 0; i < region_count; i++) {
        if (overlap(regions[i], region))
            mistake("a region over another one", region.base);
    }
    if (region_count == REGIONS_MAX)
        mistake("too many regions", region.base);
    else
        regions[region_count++] = region;
    facts.regions_added += 1;
}

static void register_regions(void *of, const tn_nvtx_regions *batch)
{
    const tn_nvtx_addresses *elements = batch->elements;

    pthread_mutex_lock(&lock);
    if (of != &domain || batch->compatible != TN_NVTX_MEMORY_COMPATIBLE ||
        batch->bytes != sizeof *batch || batch->type != TN_NVTX_TYPE_VIRTUAL_ADDRESS ||
        batch->element_bytes != sizeof *elements)
        mistake("regions that are none", 0);
    for (size_t i = 0; i < batch->count; i++)
        add_region(batch->heap, (struct bytes){(uintptr_t)elements[i].base, elements[i].bytes});
    pthread_mutex_unlock(&lock);
}

static void remove_region(uint64_t base)
{
    for (uint64_t i = 0; i < region_count; i++) {
        if (regions[i].base != base)
            continue;
        regions[i] = regions[--region_count];
        return;
    }
    mistake("no region ends", base);
}

static void unregister_regions(void *of, const tn_nvtx_ended_regions *batch)
{
    pthread_mutex_lock(&lock);
    if (of != &domain || batch->compatible != TN_NVTX_MEMORY_COMPATIBLE ||
        batch->bytes != sizeof *batch || batch->reference_type != TN_NVTX_REFERENCE_POINTER ||
        batch->element_bytes != sizeof *batch->elements)
        mistake("ends of regions that are none", 0);
    for (size_t i = 0; i < batch->count; i++)
        remove_region((uintptr_t)batch->elements[i].pointer);
    pthread_mutex_unlock(&lock);
}

static int push(void *of, const tn_nvtx_event *event)
{
    pthread_mutex_lock(&lock);
    if (of != &domain || event->version != TN_NVTX_EVENT_VERSION || event->bytes != sizeof *event ||
        event->message_type != TN_NVTX_MESSAGE_ASCII)
        mistake("a range that is none", 0);
    if (facts.ranges < RANGES_MAX)
        (void)snprintf(range_names[facts.ranges], NAME_BYTES, "%s", event->message.ascii);
    facts.ranges += 1;
    facts.open_ranges += 1;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int pop(void *of)
{
    pthread_mutex_lock(&lock);
    if (of != &domain || facts.open_ranges == 0)
        mistake("no range ends", 0);
    else
        facts.open_ranges -= 1;
    pthread_mutex_unlock(&lock);
    return 0;
}

static uint64_t make_counter(void *of, const tn_nvtx_counter *counter)
{
    uint64_t made = 0;

    pthread_mutex_lock(&lock);
    if (of != &domain || counter->bytes != sizeof *counter ||
        counter->schema != TN_NVTX_SCHEMA_INT64 || counter->counter != 0)
        mistake("a counter that is none", 0);
    if (facts.counters < COUNTERS_MAX) {
        (void)snprintf(counters[facts.counters].name, NAME_BYTES, "%s", counter->name);
        facts.counters += 1;
        made = facts.counters;
    }
    pthread_mutex_unlock(&lock);
    return made;
}

static void sample(void *of, uint64_t counter, int64_t value)
{
    pthread_mutex_lock(&lock);
    if (of != &domain || counter == 0 || counter > facts.counters) {
        mistake("a sample of no counter", counter);
    } else {
        counters[counter - 1].value = value;
        counters[counter - 1].has_value = true;
        facts.samples += 1;
    }
    pthread_mutex_unlock(&lock);
}

static void *create_domain(const char *name)
{
    return strcmp(name, "tarn") == 0 ? &domain : NULL;
}

int InitializeInjectionNvtx2(tn_nvtx_get_table get_table)
{
    const tn_nvtx_callbacks *callbacks = get_table(TN_NVTX_TABLE_CALLBACKS);
    const tn_nvtx_version *version = get_table(TN_NVTX_TABLE_VERSION);
    tn_nvtx_function **table = NULL;
    unsigned count = 0;

    if (is("silent"))
        return 0;
    if (get_table(0) != NULL || version == NULL || version->version != TN_NVTX_VERSION ||
        callbacks == NULL || callbacks->bytes != sizeof *callbacks ||
        callbacks->get(0, &table, &count) != 0 ||
        callbacks->get(TN_NVTX_MODULE_DOMAINS, &table, &count) != 1 ||
        count != TN_NVTX_DOMAIN_FUNCTIONS || table[0] != NULL || table[count] != NULL)
        mistake("tables that are none", 0);
    if (table == NULL)
        return 0;
    *table[TN_NVTX_DOMAIN_CREATE] = (tn_nvtx_function)create_domain;
    *table[TN_NVTX_DOMAIN_RANGE_PUSH] = (tn_nvtx_function)push;
    *table[TN_NVTX_DOMAIN_RANGE_POP] = (tn_nvtx_function)pop;
    return is("core") ? 0 : 1;
}

int InitializeInjectionNvtxExtension(tn_nvtx_extension *extension)
{
    intptr_t *functions = extension->parts[0].functions;

    if (is("silent"))
        return 0;
    if (extension->module == TN_NVTX_COUNTERS_MODULE) {
        functions[TN_NVTX_COUNTER_REGISTER] = (intptr_t)make_counter;
        functions[TN_NVTX_COUNTER_SAMPLE] = (intptr_t)sample;
        return 1;
    }
    if (extension->module != TN_NVTX_MEMORY_MODULE || extension->bytes != sizeof *extension ||
        extension->compatible != TN_NVTX_MEMORY_COMPATIBLE || extension->part_count != 1 ||
        extension->parts[0].count != TN_NVTX_MEMORY_FUNCTIONS)
        mistake("an extension that is none", 0);
    facts.loads += 1;
    functions[TN_NVTX_HEAP_REGISTER] = (intptr_t)register_heap;
    functions[TN_NVTX_HEAP_UNREGISTER] = (intptr_t)unregister_heap;
    functions[TN_NVTX_REGIONS_REGISTER] = is("memory") ? -1 : (intptr_t)register_regions;
    functions[TN_NVTX_REGIONS_UNREGISTER] = (intptr_t)unregister_regions;
    return 1;
}

void fake_tool_facts(struct fake_tool_facts *to)
{
    pthread_mutex_lock(&lock);
    facts.regions = region_count;
    *to = facts;
    pthread_mutex_unlock(&lock);
}

/* Looks at each byte's region: regions may stand side by side. */
bool fake_tool_allows(uint64_t address, uint64_t bytes)
{
    const uint64_t end = address + bytes;

    pthread_mutex_lock(&lock);
    while (address < end) {
        uint64_t next = address;

        for (uint64_t i = 0; i < region_count; i++) {
            if (address - regions[i].base < regions[i].bytes)
                next = regions[i].base + regions[i].bytes;
        }
        if (next == address && find_heap(address) != NULL)
            break;
        address = next > address ? next : end; /* outside heaps the tool does not look */
    }
    pthread_mutex_unlock(&lock);
    return address >= end;
}

static uint64_t distance(struct bytes region, uint64_t address)
{
    if (address < region.base)
        return region.base - address;
    return address < region.base + region.bytes ? 0 : address - (region.base + region.bytes) + 1;
}

bool fake_tool_nearest(uint64_t address, uint64_t *base, uint64_t *bytes)
{
    uint64_t least = UINT64_MAX;
    bool found;

    pthread_mutex_lock(&lock);
    found = find_heap(address) != NULL;
    for (uint64_t i = 0; i < region_count; i++) {
        if (distance(regions[i], address) >= least)
            continue;
        least = distance(regions[i], address);
        *base = regions[i].base;
        *bytes = regions[i].bytes;
    }
    pthread_mutex_unlock(&lock);
    return found && least < UINT64_MAX;
}

bool fake_tool_value(const char *text, int64_t *value)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (uint64_t i = facts.counters; i > 0 && !found; i--) {
        found = strstr(counters[i - 1].name, text) != NULL && counters[i - 1].has_value;
        *value = counters[i - 1].value;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

uint64_t fake_tool_count_ranges(const char *name)
{
    uint64_t count = 0;

    pthread_mutex_lock(&lock);
    for (uint64_t i = 0; i < facts.ranges && i < RANGES_MAX; i++)
        count += strcmp(range_names[i], name) == 0;
    pthread_mutex_unlock(&lock);
    return count;
}
