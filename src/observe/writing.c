// SPDX-License-Identifier: Apache-2.0
/* A writer may fork. The child then writes nothing more. */
#include "observe/writing.h"

#include "base/contract.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/user_code.h"
#include "driver/open.h"

static TN_USER_CODE_ON_STACK tarn_status call_writer(const struct tn_writing *writing,
                                                     const void *bytes, size_t count)
{
    tarn_status status;
    TN_USER_CODE(code);

    TN_ASSERT(tn_lock_none_held());
    tn_gpus_enter_user_code();
    tn_user_code_enter(&code, TN_USER_WRITER);
    status = writing->writer(bytes, count, writing->user);
    tn_user_code_leave(&code);
    tn_gpus_leave_user_code();
    return status;
}

tarn_status tn_write_part(void *context, const void *bytes, size_t count)
{
    struct tn_writing *writing = context;
    tarn_status status = call_writer(writing, bytes, count);

    if (tn_is_forked())
        return tn_fork_refuse();
    if (status != TARN_OK)
        return tn_fail(status, "the writer answered %s for %zu bytes, after %llu bytes",
                       tarn_status_name(status), count, (unsigned long long)writing->written_bytes);
    writing->written_bytes += count;
    return TARN_OK;
}
