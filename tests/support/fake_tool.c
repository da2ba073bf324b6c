// SPDX-License-Identifier: Apache-2.0
#include "support/fake_tool.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "support/world.h"

#define PATH_VARIABLE "NVTX_INJECTION64_PATH"

static void find(const struct fake_tool *tool, const char *name, void *function)
{
    void *symbol = dlsym(tool->library, name);

    ck_assert_msg(symbol != NULL, "%s", name);
    memcpy(function, &symbol, sizeof symbol);
}

void fake_tool_use(struct fake_tool *tool, const char *how)
{
    int set = how != NULL ? setenv(FAKE_TOOL_VARIABLE, how, 1) : unsetenv(FAKE_TOOL_VARIABLE);

    ck_assert_int_eq(set, 0);
    ck_assert_int_eq(setenv(PATH_VARIABLE, FAKE_TOOL_PATH, 1), 0);
    ck_assert(fake_tool_find(tool));
}

bool fake_tool_find(struct fake_tool *tool)
{
    const char *path = getenv(PATH_VARIABLE);

    if (path == NULL)
        return false;
    tool->library = dlopen(path, RTLD_NOW);
    ck_assert_msg(tool->library != NULL, "%s", dlerror());
    find(tool, "fake_tool_facts", &tool->look);
    find(tool, "fake_tool_allows", &tool->allows);
    find(tool, "fake_tool_nearest", &tool->nearest);
    find(tool, "fake_tool_value", &tool->value);
    find(tool, "fake_tool_count_ranges", &tool->count_ranges);
    return true;
}

struct fake_tool_facts fake_tool_look(const struct fake_tool *tool)
{
    struct fake_tool_facts facts;

    tool->look(&facts);
    return facts;
}
