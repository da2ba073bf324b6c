// SPDX-License-Identifier: Apache-2.0
#include "base/sized.h"

#include <string.h>

#include "base/checked.h"
#include "base/contract.h"
#include "base/error.h"

static size_t size_of(const void *given)
{
    size_t bytes;

    memcpy(&bytes, given, sizeof bytes);
    return bytes;
}

tarn_status tn_sized_check(struct tn_sized sized, const void *given)
{
    TN_ASSERT(sized.least_bytes > sizeof(size_t) && sized.known_bytes <= TN_SIZED_BYTES_MAX);
    if (given == NULL)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT, "the %s is NULL", sized.name);
    if (size_of(given) < sized.least_bytes || size_of(given) > TN_SIZED_BYTES_MAX ||
        size_of(given) % sizeof(size_t) != 0)
        return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                       "the size of a %s is %zu bytes, which is that of no version: its INIT macro "
                       "sets it",
                       sized.name, size_of(given));
    return TARN_OK;
}

tarn_status tn_sized_read(struct tn_sized sized, const void *given, void *known)
{
    const char *bytes = given;
    tarn_status status = given != NULL ? tn_sized_check(sized, given) : TARN_OK;

    memset(known, 0, sized.known_bytes);
    memcpy(known, &sized.known_bytes, sizeof sized.known_bytes);
    if (status != TARN_OK)
        return status;
    for (size_t at = sized.known_bytes; given != NULL && at < size_of(given); at++) {
        if (bytes[at] != 0)
            return tn_fail(TARN_ERR_INVALID_ARGUMENT,
                           "a %s of %zu bytes has a field set, at byte %zu, that this version of "
                           "Tarn does not know: the size it knows is %zu",
                           sized.name, size_of(given), at, sized.known_bytes);
    }
    if (given != NULL)
        memcpy((char *)known + sizeof sized.known_bytes, bytes + sizeof sized.known_bytes,
               tn_min(size_of(given), sized.known_bytes) - sizeof sized.known_bytes);
    return TARN_OK;
}

void tn_sized_write(struct tn_sized sized, void *given, const void *known)
{
    size_t bytes = size_of(given);
    size_t written = tn_min(bytes, sized.known_bytes);

    TN_ASSERT(bytes >= sized.least_bytes && bytes <= TN_SIZED_BYTES_MAX);
    TN_ASSERT(size_of(known) == sized.known_bytes);
    memcpy((char *)given + sizeof bytes, (const char *)known + sizeof bytes,
           written - sizeof bytes);
    memset((char *)given + written, 0, bytes - written);
}
