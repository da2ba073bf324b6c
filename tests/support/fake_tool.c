// SPDX-License-Identifier: Apache-2.0
#include "support/fake_tool.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "support/world.h"

static void find(const struct fake_tool *tool, const char *name, void *function)
{
    void *symbol = dlsym(tool->library, name);

    ck_assert_msg(symbol != NULL, "%s", name);
    memcpy(function, &symbol, sizeof symbol);
}

void fake_tool_use(struct fake_tool *tool, const char *how)
{
    ck_assert_int_eq(setenv("NVTX_INJECTION64_PATH", FAKE_TOOL_PATH, 1), 0);
    ck_assert_int_eq(
        how != NULL ? setenv(FAKE_TOOL_VARIABLE, how, 1) : unsetenv(FAKE_TOOL_VARIABLE), 0);
    tool->library = dlopen(FAKE_TOOL_PATH, RTLD_NOW);
    ck_assert_msg(tool->library != NULL, "%s", dlerror());
    find(tool, "fake_tool_facts", &tool->look);
    find(tool, "fake_tool_allows", &tool->allows);
    find(tool, "fake_tool_nearest", &tool->nearest);
}

struct fake_tool_facts fake_tool_look(const struct fake_tool *tool)
{
    struct fake_tool_facts facts;

    tool->look(&facts);
    return facts;
}
