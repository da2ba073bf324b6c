// SPDX-License-Identifier: Apache-2.0
/* Live blocks as text, for people and for programs that read JSON.
 *
 * A frame is the address behind its call, so one byte less is in the call. This byte's address is
 * printed, and looked for. The loader is asked for the names of functions when the text is written.
 *
 * Trade-offs: dladdr knows dynamic symbols alone. A program's own functions have names where the
 * program is linked with -rdynamic. Debug information is left to tools, by the module's build
 * id. */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "base/contract.h"
#include "base/text.h"
#include "observe/leaks.h"

/* A number of bytes, for people. */
static void put_bytes(struct tn_text *text, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double scaled = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < 1024) {
        tn_put(text, "%llu B", (unsigned long long)bytes);
        return;
    }
    while (scaled >= 1024 && unit < 5) {
        scaled /= 1024;
        unit += 1;
    }
    tn_put(text, "%.1f %s", scaled, units[unit]);
}

/* As: 2 blocks, 4.0 MiB */
static void put_sum(struct tn_text *text, const tarn_leak_sum *sum)
{
    tn_put(text, "%llu block%s, ", (unsigned long long)sum->blocks, sum->blocks == 1 ? "" : "s");
    put_bytes(text, sum->bytes);
}

static void put_part(struct tn_text *text, const tarn_leak_sum *sum, const char *what)
{
    if (sum->blocks == 0)
        return;
    tn_put(text, "; %s: ", what);
    put_sum(text, sum);
}

/* The function with the call; NULL: the loader does not know. */
static const char *function_of(uint64_t frame)
{
    Dl_info found;

    if (dladdr((const void *)(uintptr_t)(frame - 1), &found) == 0)
        return NULL;
    return found.dli_sname;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

/* The place of the frame's call in the module's file. */
static uint64_t offset_of(const tarn_leak_module *module, uint64_t frame)
{
    TN_ASSERT(frame > module->start && frame <= module->end);
    return frame - 1 - module->start + module->offset;
}

static void put_frame(struct tn_text *text, const tarn_leaks *leaks, uint64_t frame)
{
    const tarn_leak_module *module = tn_leaks_module(leaks, frame);
    const char *function;

    if (module == NULL) { /* code of no file */
        tn_put(text, "    0x%llx\n", (unsigned long long)(frame - 1));
        return;
    }
    function = function_of(frame);
    tn_put(text, "    %s+0x%llx%s%s\n", file_name(module->path),
           (unsigned long long)offset_of(module, frame), function != NULL ? " " : "",
           function != NULL ? function : "");
}

static void put_stack(struct tn_text *text, const tarn_leaks *leaks, const tarn_leak *place)
{
    if (place->label[0] != '\0')
        tn_put(text, "    label '%s'\n", place->label);
    for (size_t i = 0; i < place->interpreted_count; i++)
        tn_put(text, "    %s\n", place->interpreted[i]);
    if (place->frame_count == 0 && place->interpreted_count == 0)
        tn_put(text, "    %s\n",
               place->stack == TN_STACKS_FULL ? "the history had no room for the stack"
                                              : "no stack");
    for (size_t i = 0; i < place->frame_count; i++)
        put_frame(text, leaks, place->frames[i]);
}

static void put_pools(struct tn_text *text, const tarn_leak *place)
{
    if (place->pool_count == 1) {
        tn_put(text, ", pool '%s'", place->pools[0].name);
        return;
    }
    for (size_t i = 0; i < place->pool_count; i++) {
        tn_put(text, "%s '%s' (", i == 0 ? ", pools" : ",", place->pools[i].name);
        put_sum(text, &place->pools[i].live);
        tn_put(text, ")");
    }
}

static void put_place(struct tn_text *text, const tarn_leaks *leaks, const tarn_leak *place)
{
    put_sum(text, &place->live);
    if (place->oldest == place->newest)
        tn_put(text, ", number %llu", (unsigned long long)place->oldest);
    else
        tn_put(text, ", numbers %llu to %llu", (unsigned long long)place->oldest,
               (unsigned long long)place->newest);
    put_pools(text, place);
    if (leaks->sample_bytes > 1)
        put_part(text, &place->estimated, "stand for");
    put_part(text, &place->in_graphs, "in memory of graphs");
    put_part(text, &place->discarded, "of aborted captures");
    tn_put(text, "\n");
    put_stack(text, leaks, place);
}

/* Where stacks are sampled, blocks without a stack have many sizes, and others stand for them. */
static void put_places(struct tn_text *text, const tarn_leaks *leaks)
{
    const bool joins = leaks->sample_bytes > 1 && leaks->count > 0 && leaks->leaks[0].stack != 0;
    tarn_leak_sum joined = {0, 0};

    for (size_t i = 0; i < leaks->count; i++) {
        const tarn_leak *place = &leaks->leaks[i];

        if (!joins || place->stack != 0) {
            put_place(text, leaks, place);
            continue;
        }
        joined.blocks += place->live.blocks;
        joined.bytes += place->live.bytes;
    }
    if (joined.blocks == 0)
        return;
    put_sum(text, &joined);
    tn_put(text, ", no stack was taken\n");
}

static void put_build_id(struct tn_text *text, const tarn_leak_module *module)
{
    for (size_t i = 0; i < module->build_id_bytes; i++)
        tn_put(text, "%02x", module->build_id[i]);
}

static void put_text(struct tn_text *text, const tarn_leaks *leaks)
{
    tn_put(text, "device %d: ", leaks->device);
    if (leaks->live.blocks == 0)
        tn_put(text, "no block is live");
    else
        put_sum(text, &leaks->live);
    if (leaks->live.blocks > 0)
        tn_put(text, ", live in %zu place%s; the last allocation has number %llu", leaks->count,
               leaks->count == 1 ? "" : "s", (unsigned long long)leaks->last_number);
    put_part(text, &leaks->in_graphs, "in memory of graphs");
    put_part(text, &leaks->discarded, "of aborted captures");
    put_part(text, &leaks->contents, "beside them contents of checkpoints");
    tn_put(text, "\n");
    put_places(text, leaks);
    for (size_t i = 0; i < leaks->module_count; i++) {
        const tarn_leak_module *module = &leaks->modules[i];

        tn_put(text, "%s is %s", file_name(module->path), module->path);
        if (module->build_id_bytes > 0)
            tn_put(text, ", build id ");
        put_build_id(text, module);
        tn_put(text, "\n");
    }
}

/* JSON ---------------------------------------------------------------------------------------- */

static void put_number(struct tn_text *text, const char *name, uint64_t number)
{
    tn_put(text, "\"%s\": %llu, ", name, (unsigned long long)number);
}

static void put_sum_object(struct tn_text *text, const char *name, const tarn_leak_sum *sum)
{
    tn_put(text, "\"%s\": {\"blocks\": %llu, \"bytes\": %llu}", name,
           (unsigned long long)sum->blocks, (unsigned long long)sum->bytes);
}

static void put_frame_object(struct tn_text *text, const tarn_leaks *leaks, uint64_t frame)
{
    const tarn_leak_module *module = tn_leaks_module(leaks, frame);
    const char *function = module != NULL ? function_of(frame) : NULL;

    tn_put(text, "{\"address\": %llu", (unsigned long long)frame);
    if (module != NULL)
        tn_put(text, ", \"module\": %zu, \"offset\": %llu", (size_t)(module - leaks->modules),
               (unsigned long long)offset_of(module, frame));
    if (function != NULL) {
        tn_put(text, ", \"function\": ");
        tn_put_string(text, function);
    }
    tn_put(text, "}");
}

static void put_pool_object(struct tn_text *text, const tarn_leak_pool *pool)
{
    tn_put(text, "{");
    put_number(text, "number", pool->number);
    tn_put(text, "\"name\": ");
    tn_put_string(text, pool->name);
    tn_put(text, ", ");
    put_sum_object(text, "live", &pool->live);
    tn_put(text, "}");
}

static void put_place_object(struct tn_text *text, const tarn_leaks *leaks, const tarn_leak *place)
{
    tn_put(text, "{");
    put_number(text, "stack", place->stack);
    put_number(text, "block_bytes", place->block_bytes);
    put_number(text, "oldest", place->oldest);
    put_number(text, "newest", place->newest);
    put_sum_object(text, "live", &place->live);
    tn_put(text, ", ");
    put_sum_object(text, "estimated", &place->estimated);
    tn_put(text, ", ");
    put_sum_object(text, "in_graphs", &place->in_graphs);
    tn_put(text, ", ");
    put_sum_object(text, "discarded", &place->discarded);
    tn_put(text, ", \"label\": ");
    tn_put_string(text, place->label);
    tn_put(text, ", \"interpreted\": [");
    for (size_t i = 0; i < place->interpreted_count; i++) {
        tn_put(text, i > 0 ? ", " : "");
        tn_put_string(text, place->interpreted[i]);
    }
    tn_put(text, "], \"frames\": [");
    for (size_t i = 0; i < place->frame_count; i++) {
        tn_put(text, i > 0 ? ", " : "");
        put_frame_object(text, leaks, place->frames[i]);
    }
    tn_put(text, "], \"pools\": [");
    for (size_t i = 0; i < place->pool_count; i++) {
        tn_put(text, i > 0 ? ", " : "");
        put_pool_object(text, &place->pools[i]);
    }
    tn_put(text, "]}");
}

static void put_module_object(struct tn_text *text, const tarn_leak_module *module)
{
    tn_put(text, "{");
    put_number(text, "start", module->start);
    put_number(text, "end", module->end);
    put_number(text, "offset", module->offset);
    tn_put(text, "\"path\": ");
    tn_put_string(text, module->path);
    tn_put(text, ", \"build_id\": \"");
    put_build_id(text, module);
    tn_put(text, "\"}");
}

static void put_json(struct tn_text *text, const tarn_leaks *leaks)
{
    tn_put(text, "{\"device\": %d, ", leaks->device);
    put_number(text, "sample_bytes", leaks->sample_bytes);
    put_number(text, "last_number", leaks->last_number);
    put_sum_object(text, "live", &leaks->live);
    tn_put(text, ", ");
    put_sum_object(text, "in_graphs", &leaks->in_graphs);
    tn_put(text, ", ");
    put_sum_object(text, "discarded", &leaks->discarded);
    tn_put(text, ", ");
    put_sum_object(text, "contents", &leaks->contents);
    tn_put(text, ", \"leaks\": [");
    for (size_t i = 0; i < leaks->count; i++) {
        tn_put(text, i > 0 ? ", " : "");
        put_place_object(text, leaks, &leaks->leaks[i]);
    }
    tn_put(text, "], \"modules\": [");
    for (size_t i = 0; i < leaks->module_count; i++) {
        tn_put(text, i > 0 ? ", " : "");
        put_module_object(text, &leaks->modules[i]);
    }
    tn_put(text, "]}\n");
}

size_t tn_leaks_write_report(const tarn_leaks *leaks, tarn_report_format format, char *buffer,
                             size_t capacity)
{
    struct tn_text text = {buffer, capacity, 0};

    if (format == TARN_REPORT_JSON)
        put_json(&text, leaks);
    else
        put_text(&text, leaks);
    return text.length;
}
