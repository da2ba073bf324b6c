// SPDX-License-Identifier: Apache-2.0
/* settings.c -- the settings, each with its allowed values.
 *
 * How it works. A table has every setting's name, a sentence on the allowed values and a function
 * that takes a value. The environment is read against the table. A variable that begins with
 * TARN_SIM_ and is no setting is reported, since a misspelt setting without effect is worse than an
 * error.
 *
 * Trade-offs. An unusable value never stops the process: the simulator stands in for a driver, and
 * programs do not expect a driver to exit. */
#include "sim/entry/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/environment.h"
#include "sim/entry/call.h"
#include "sim/core/cost.h"
#include "sim/entry/fault.h"

#define PREFIX "TARN_SIM_"
#define PREFIX_LENGTH (sizeof PREFIX - 1)
#define MAX_LIST 4096

static bool read_number(const char *text, long least, long most, long *value)
{
    char *end = NULL;
    errno = 0;
    *value = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *value >= least && *value <= most;
}

static bool read_switch(const char *text, bool *on)
{
    long value;
    if (!read_number(text, 0, 1, &value))
        return false;
    *on = value == 1;
    return true;
}

static bool set_devices(const char *text)
{
    long value;
    if (!read_number(text, 1, TN_SIM_MAX_DEVICES, &value))
        return false;
    tn_sim.device_count = (int)value;
    return true;
}

static bool set_memory(const char *text)
{
    long value;
    /* 16 TiB at most: the file behind a device is 32 times as large, and must fit in a file. */
    if (!read_number(text, 2, 16L << 20, &value))
        return false;
    tn_sim.memory_bytes = (size_t)value * TN_SIM_MIB;
    tn_sim.memory_bytes -= tn_sim.memory_bytes % TN_SIM_GRANULE;
    return true;
}

static bool set_strict(const char *text)
{
    return read_switch(text, &tn_sim.strict);
}

static bool set_check(const char *text)
{
    long value;
    if (!read_number(text, 0, 2, &value))
        return false;
    tn_sim.check = (int)value;
    return true;
}

static bool set_poison(const char *text)
{
    return read_switch(text, &tn_sim.poison);
}

static bool set_exec_memory(const char *text)
{
    return read_switch(text, &tn_sim.exec_memory);
}

static bool set_vmm(const char *text)
{
    bool there;
    if (!read_switch(text, &there))
        return false;
    tn_sim.without_vmm = !there;
    return true;
}

static bool set_costs(const char *text)
{
    return tn_sim_costs_load(text);
}

static bool set_costs_sleep(const char *text)
{
    return read_switch(text, &tn_sim.sleep);
}

static bool set_fault(const char *text)
{
    return tn_sim_fault_plan_all(text);
}

static bool set_hints(const char *text)
{
    enum { AS_DRIVER, MOVED, REFUSED };
    long mib = 0;
    if (strncmp(text, "refused:", 8) == 0 && !read_number(text + 8, 0, 1L << 40, &mib))
        return false;
    if (strcmp(text, "driver") == 0)
        tarn_sim_set_hints(AS_DRIVER, 0);
    else if (strcmp(text, "moved") == 0)
        tarn_sim_set_hints(MOVED, 0);
    else if (strcmp(text, "refused") == 0 || strncmp(text, "refused:", 8) == 0)
        tarn_sim_set_hints(REFUSED, (size_t)mib * TN_SIM_MIB);
    else
        return false;
    return true;
}

static bool set_version(const char *text)
{
    long value;
    if (!read_number(text, 12000, TN_SIM_DRIVER_VERSION, &value))
        return false;
    tn_sim.driver_version = (int)value;
    return true;
}

static bool set_missing(const char *text)
{
    bool missing[TN_SIM_FUNCTION_COUNT] = {false};
    char list[MAX_LIST];
    char *rest = NULL;
    if (strlen(text) >= sizeof list)
        return false;
    memcpy(list, text, strlen(text) + 1);
    for (char *name = strtok_r(list, ", ", &rest); name != NULL;
         name = strtok_r(NULL, ", ", &rest)) {
        enum tn_sim_function function = tn_sim_function_named(name);
        if (function == TN_SIM_FUNCTION_COUNT)
            return false;
        missing[function] = true;
    }
    memcpy(tn_sim.missing, missing, sizeof missing);
    return true;
}

static bool set_work(const char *text)
{
    static const char *const paces[] = {
        [TN_SIM_BESIDE] = "beside",
        [TN_SIM_AWAITED] = "awaited",
        [TN_SIM_AT_ONCE] = "at-once",
    };
    for (enum tn_sim_pace pace = TN_SIM_BESIDE; pace <= TN_SIM_AT_ONCE; pace++) {
        if (strcmp(text, paces[pace]) == 0) {
            tn_sim.pace = pace;
            return true;
        }
    }
    return false;
}

static bool set_destructor_us(const char *text)
{
    long value;
    if (!read_number(text, 0, 10000000, &value))
        return false;
    tarn_sim_delay_destructors((uint64_t)value);
    return true;
}

static bool set_ledger(const char *text)
{
    return read_switch(text, &tn_sim.show_ledger);
}

static bool set_account(const char *text)
{
    free(tn_sim.account_path);
    tn_sim.account_path = strdup(text);
    return tn_sim.account_path != NULL;
}

static bool set_shared(const char *text)
{
    free(tn_sim.shared_path);
    tn_sim.shared_path = strdup(text);
    return tn_sim.shared_path != NULL;
}

static bool set_gone(const char *text)
{
    static bool arranged;
    bool on;
    if (!read_switch(text, &on))
        return false;
    /* Handlers run in the reverse order of their registration. */
    if (on && !arranged)
        arranged = atexit(tn_sim_end) == 0;
    return !on || arranged;
}

static const struct setting {
    const char *name; /* without the prefix */
    const char *allowed;
    bool (*set)(const char *text); /* returns false, with nothing changed, for a wrong value */
} settings[] = {
    {"DEVICES", "a number from 1 to 16", set_devices},
    {"MEMORY_MIB", "a number from 2 to 16777216", set_memory},
    {"STRICT", "0 or 1", set_strict},
    {"CHECK", "0, 1 or 2", set_check},
    {"POISON", "0 or 1", set_poison},
    {"COSTS", "a file of costs, or the name of one that comes with the simulator", set_costs},
    {"COSTS_SLEEP", "0 or 1", set_costs_sleep},
    {"FAULT", "FUNCTION:NTH:RESULT[:always], with commas between several", set_fault},
    {"HINTS", "driver, moved or refused[:MIB]", set_hints},
    {"DRIVER_VERSION", "a number from 12000 to 13000", set_version},
    {"MISSING", "names of driver functions, with commas between", set_missing},
    {"VMM", "0 or 1", set_vmm},
    {"DESTRUCTOR_US", "a number from 0 to 10000000", set_destructor_us},
    {"LEDGER", "0 or 1", set_ledger},
    {"EXEC_MEMORY", "0 or 1", set_exec_memory},
    {"ACCOUNT", "a file to write", set_account},
    {"GONE", "0 or 1", set_gone},
    {"SHARED", "a file of the processes that share the devices", set_shared},
    {"WORK", "beside, awaited or at-once", set_work},
};

enum { SETTING_COUNT = sizeof settings / sizeof settings[0] };

/* The setting with a name of length characters, or NULL. */
static const struct setting *setting_named(const char *name, size_t length)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (strlen(settings[i].name) == length && strncmp(settings[i].name, name, length) == 0)
            return &settings[i];
    }
    return NULL;
}

static bool set(const struct setting *setting, const char *value)
{
    if (setting->set(value))
        return true;
    fprintf(stderr, "tarn_sim: " PREFIX "%s=%s is of no effect: it may be %s\n", setting->name,
            value, setting->allowed);
    return false;
}

void tn_sim_settings_read(void)
{
    for (char *const *variable = tn_environment_all(); variable != NULL && *variable != NULL;
         variable++) {
        if (strncmp(*variable, PREFIX, PREFIX_LENGTH) != 0)
            continue;
        const char *name = *variable + PREFIX_LENGTH;
        const char *value = strchr(name, '=');
        if (value == NULL)
            continue;
        const struct setting *setting = setting_named(name, (size_t)(value - name));
        if (setting == NULL)
            fprintf(stderr, "tarn_sim: %s is of no effect: there is no such setting\n", *variable);
        else if (value[1] != '\0')
            set(setting, value + 1);
    }
}

int tarn_sim_configure(const char *name, const char *value)
{
    if (name == NULL || value == NULL || !tn_sim_enter_settings())
        return -1;
    bool late = tn_sim.initialised;
    tn_sim_leave();
    if (strncmp(name, PREFIX, PREFIX_LENGTH) == 0)
        name += PREFIX_LENGTH;
    const struct setting *setting = setting_named(name, strlen(name));
    if (setting == NULL || late) {
        fprintf(stderr, "tarn_sim: " PREFIX "%s=%s is of no effect: %s\n", name, value,
                late ? "the driver is initialised" : "there is no such setting");
        return -1;
    }
    return set(setting, value) ? 0 : -1;
}
