// SPDX-License-Identifier: Apache-2.0
/* The library is loaded as a program has it, and opens each device: so the answer is that of a program,
 * with the same TARN_DRIVER and TARN_CONF. The command has the library's readers inside, and asks the library by
 * its exports alone. */
#include "info.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/contract.h"
#include "json.h"
#include "out.h"
#include "tarn/device.h"
#include "tarn/stats.h"
#include "tarn/status.h"
#include "tarn/version.h"
#include "text.h"

enum { DEVICES_MAX = 64, SENTENCE_BYTES = 512, PATH_BYTES = 4096 };

struct library {
    const char *(*version)(void);
    const char *(*last_error)(void);
    tarn_status (*open)(int ordinal, const tarn_device_options *options, tarn_device **device);
    tarn_status (*describe)(tarn_device *device, tarn_device_info *info);
    tarn_status (*stats)(tarn_device *device, tarn_stats *stats);
    tarn_status (*close)(tarn_device *device);
};

/* A device as it was found. */
struct told_device {
    int ordinal;
    char refusal[SENTENCE_BYTES]; /* empty: it opens */
    tarn_device_info info;
    tarn_stats stats;
};

/* Takes a function by its name. False: there is none. */
static bool find(void *handle, const char *name, void *function)
{
    void *found = dlsym(handle, name);

    TN_ASSERT(sizeof found == sizeof(void (*)(void)));
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* Beside the command, as it is built and installed: the loader may not look there. */
static void *load_beside(const char *name)
{
    char path[PATH_BYTES];
    char own[PATH_BYTES];
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    char *slash;
    int bytes;

    if (length <= 0)
        return NULL;
    own[length] = '\0';
    slash = strrchr(own, '/');
    TN_ASSERT(slash != NULL);
    *slash = '\0';
    bytes = snprintf(path, sizeof path, "%s/../lib/%s", own, name);
    return bytes > 0 && (size_t)bytes < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Of the version that the command was built with, as programs load it. */
static bool load(struct library *library)
{
    char name[64];
    void *handle;

    if (TARN_VERSION_MAJOR > 0)
        (void)snprintf(name, sizeof name, "libtarn.so.%d", TARN_VERSION_MAJOR);
    else
        (void)snprintf(name, sizeof name, "libtarn.so.0.%d", TARN_VERSION_MINOR);
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        handle = load_beside(name);
    if (handle == NULL) {
        (void)say(ANSWER_WRONG, "the library cannot be loaded: %s", dlerror());
        return false;
    }
    if (find(handle, "tarn_version", &library->version) &&
        find(handle, "tarn_last_error", &library->last_error) &&
        find(handle, "tarn_device_open", &library->open) &&
        find(handle, "tarn_device_describe", &library->describe) &&
        find(handle, "tarn_device_stats", &library->stats) &&
        find(handle, "tarn_device_close", &library->close))
        return true;
    (void)say(ANSWER_WRONG, "%s is a library of another version", name);
    return false;
}

/* What an open of the device tells; its status. */
static tarn_status look(const struct library *library, int ordinal, struct told_device *told)
{
    tarn_device *device = NULL;
    tarn_status status = library->open(ordinal, NULL, &device);
    const bool is_open = status == TARN_OK;

    *told = (struct told_device){
        .ordinal = ordinal, .info = TARN_DEVICE_INFO_INIT, .stats = TARN_STATS_INIT};
    if (is_open)
        status = library->describe(device, &told->info);
    if (status == TARN_OK)
        status = library->stats(device, &told->stats);
    if (status != TARN_OK)
        (void)snprintf(told->refusal, sizeof told->refusal, "%s", library->last_error());
    if (is_open && library->close(device) != TARN_OK && status == TARN_OK)
        (void)snprintf(told->refusal, sizeof told->refusal, "%s", library->last_error());
    return status;
}

static void print(const struct told_device *told, FILE *file)
{
    const tarn_device_info *info = &told->info;

    (void)fprintf(file, "\ndevice %d  ", told->ordinal);
    if (told->refusal[0] != '\0') {
        (void)fputs("cannot be used: ", file);
        text_put(file, told->refusal);
        (void)fputc('\n', file);
        return;
    }
    text_put(file, info->name);
    (void)fputs(", ", file);
    text_bytes(file, (double)info->total_bytes);
    (void)fprintf(file, "\ndriver    %d.%d, ", info->driver_version / 1000,
                  info->driver_version % 1000 / 10);
    text_put(file, info->driver);
    (void)fprintf(file, "%s\naddresses ", info->simulated ? " (simulated)" : "");
    text_bytes(file, (double)told->stats.reserved_bytes);
    (void)fputs(" reserved, without memory\nhistory   ", file);
    if (told->stats.history_bytes > 0)
        text_bytes(file, (double)told->stats.history_bytes);
    else
        (void)fputs("none", file);
    (void)fputs("\nlimit     ", file);
    if (told->stats.limit_bytes > 0 && told->stats.limit_bytes < told->info.total_bytes)
        text_bytes(file, (double)told->stats.limit_bytes);
    else
        (void)fputs("none but the device's memory", file);
    (void)fputc('\n', file);
}

static void to_json(const struct told_device *told, struct json *json)
{
    json_begin(json, NULL, '{');
    json_number(json, "device", (uint64_t)told->ordinal);
    json_text(json, "refusal", told->refusal[0] != '\0' ? told->refusal : NULL);
    if (told->refusal[0] == '\0') {
        json_text(json, "name", told->info.name);
        json_text(json, "driver", told->info.driver);
        json_number(json, "driver_version", (uint64_t)told->info.driver_version);
        json_bool(json, "simulated", told->info.simulated);
        json_number(json, "total_bytes", told->info.total_bytes);
        json_number(json, "reserved_bytes", told->stats.reserved_bytes);
        json_number(json, "history_bytes", told->stats.history_bytes);
        json_number(json, "limit_bytes", told->stats.limit_bytes);
    }
    json_end(json, '}');
}

/* Devices are counted from 0 until there is none, or the first one is refused. *last: why. Returns
 * how many can be used. */
static size_t write_devices(const struct library *library, struct json *json, bool as_json,
                            char last[SENTENCE_BYTES])
{
    size_t count = 0;

    for (int ordinal = 0; ordinal < DEVICES_MAX; ordinal++) {
        struct told_device told;
        const tarn_status status = look(library, ordinal, &told);

        if (status == TARN_ERR_NO_DEVICE || status == TARN_ERR_NO_DRIVER ||
            status == TARN_ERR_DRIVER_TOO_OLD || status == TARN_ERR_INVALID_ARGUMENT ||
            (told.refusal[0] != '\0' && count == 0)) {
            (void)snprintf(last, SENTENCE_BYTES, "%s", told.refusal);
            break;
        }
        if (as_json)
            to_json(&told, json);
        else
            print(&told, json->file);
        count += told.refusal[0] == '\0';
    }
    return count;
}

enum answer info_run(const struct options *options)
{
    char last[SENTENCE_BYTES] = "";
    struct library library;
    struct json json;
    struct out out;
    size_t count;

    if (!load(&library) || !out_open(&out, options->out))
        return ANSWER_WRONG;
    json = (struct json){.file = out.file};
    if (options->as_json) {
        json_begin(&json, NULL, '{');
        json_text(&json, "library", library.version());
        json_begin(&json, "devices", '[');
    } else {
        (void)fprintf(out.file, "library   %s\n", library.version());
    }
    count = write_devices(&library, &json, options->as_json, last);
    if (options->as_json) {
        json_end(&json, ']');
        json_end(&json, '}');
    }
    if (!out_close(&out))
        return ANSWER_WRONG;
    return count > 0 ? ANSWER_FOUND : say(ANSWER_NOTHING, "no device can be used: %s", last);
}
