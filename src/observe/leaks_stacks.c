// SPDX-License-Identifier: Apache-2.0
#include "observe/leaks_stacks.h"

#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/host.h"
#include "pools/stacking.h"

/* An area of the device's history, which has stacks. */
static struct tn_scroll scroll_of(const struct tn_ring_file *file, size_t area)
{
    struct tn_scroll scroll;

    tn_scroll_init(&scroll, tn_ring_file_area(file, area), (size_t)file->head->area_bytes[area]);
    return scroll;
}

static struct tn_scroll_reader reader_of(struct tn_scroll *scroll)
{
    return (struct tn_scroll_reader){tn_scroll_from_memory, scroll,
                                     scroll->word_count * sizeof(uint64_t)};
}

/* A frame of the place's stack: its label, a text, or an address. */
static void add_frame(struct tn_titles *titles, tarn_leak *place, uint64_t frame, uint64_t **frames,
                      const char ***interpreted)
{
    if (tn_stack_title_of(frame, TN_STACK_LABEL) != 0) {
        place->label = tn_titles_text(titles, (uint32_t)frame);
    } else if ((frame & TN_STACK_TITLE) != 0) {
        *(*interpreted)++ = tn_titles_text(titles, (uint32_t)frame);
        place->interpreted_count += 1;
    } else {
        *(*frames)++ = frame;
        place->frame_count += 1;
    }
}

/* False: no memory. */
static bool read_stacks(struct tn_leaks *leaks, const struct tn_ring_file *file)
{
    struct tn_scroll scroll = scroll_of(file, TN_STACKING_STACKS);
    const struct tn_scroll_reader reader = reader_of(&scroll);
    const char **interpreted;
    uint64_t *frames;

    leaks->frames = tn_host_alloc_unset(leaks->read.count, sizeof(uint64_t[TN_STACK_FRAMES_MAX]));
    leaks->interpreted =
        tn_host_alloc_unset(leaks->read.count, sizeof(char *[TN_STACK_FRAMES_MAX]));
    leaks->titles = tn_titles_new(&reader);
    frames = leaks->frames;
    interpreted = leaks->interpreted;
    for (size_t i = 0; i < leaks->read.count && frames != NULL && interpreted != NULL; i++) {
        tarn_leak *place = &leaks->places[i];
        struct tn_stack stack;

        if (place->stack == 0 || place->stack > UINT32_MAX ||
            tn_stacks_read(&reader, (uint32_t)place->stack, &stack) != TN_SCROLL_READ)
            continue;
        place->frames = frames;
        place->interpreted = interpreted;
        for (size_t j = 0; j < stack.count; j++)
            add_frame(&leaks->titles, place, stack.frames[j], &frames, &interpreted);
        /* A label alone is of an allocation that was not chosen. */
        if (leaks->read.sample_bytes > 1 && stack.count > 0 &&
            place->frame_count + place->interpreted_count == 0)
            place->estimated = (tarn_leak_sum){0, 0};
    }
    return frames != NULL && interpreted != NULL && !leaks->titles.short_of_memory;
}

/* Whether a call of some frame is in the module. */
static bool has_frame(const struct tn_leaks *leaks, const struct tn_module *module)
{
    for (size_t i = 0; i < leaks->read.count; i++) {
        const tarn_leak *place = &leaks->places[i];

        for (size_t j = 0; j < place->frame_count; j++) {
            if (place->frames[j] > module->start && place->frames[j] <= module->end)
                return true;
        }
    }
    return false;
}

/* False: no memory. */
static bool read_modules(struct tn_leaks *leaks, const struct tn_ring_file *file)
{
    struct tn_scroll scroll = scroll_of(file, TN_STACKING_MODULES);
    const struct tn_scroll_reader reader = reader_of(&scroll);
    struct tn_module module;
    uint32_t id = TN_SCROLL_FIRST;

    while (tn_modules_read(&reader, id, &module, &id) == TN_SCROLL_READ) {
        void *modules = leaks->modules;
        bool grown;

        if (!has_frame(leaks, &module))
            continue;
        grown = tn_host_grow(&modules, &leaks->module_capacity, leaks->module_count + 1,
                             sizeof *leaks->modules);
        leaks->modules = modules;
        if (!grown)
            return false;
        leaks->modules[leaks->module_count] = module;
        leaks->module_count += 1;
    }
    if (leaks->module_count == 0)
        return true;
    leaks->module_views = tn_host_alloc(leaks->module_count, sizeof *leaks->module_views);
    for (size_t i = 0; i < leaks->module_count && leaks->module_views != NULL; i++) {
        const struct tn_module *from = &leaks->modules[i];

        leaks->module_views[i] = (tarn_leak_module){.start = from->start,
                                                    .end = from->end,
                                                    .offset = from->offset,
                                                    .path = from->path,
                                                    .build_id = from->build_id,
                                                    .build_id_bytes = from->build_id_bytes};
    }
    leaks->read.modules = leaks->module_views;
    leaks->read.module_count = leaks->module_count;
    return leaks->module_views != NULL;
}

bool tn_leaks_read_stacks(struct tn_leaks *leaks, const struct tn_ring_file *file)
{
    return read_stacks(leaks, file) && read_modules(leaks, file);
}

const tarn_leak_module *tn_leaks_module(const tarn_leaks *leaks, uint64_t frame)
{
    for (size_t i = leaks->module_count; i > 0; i--) { /* the newest with the address */
        const tarn_leak_module *module = &leaks->modules[i - 1];

        if (frame > module->start && frame <= module->end)
            return module;
    }
    return NULL;
}
