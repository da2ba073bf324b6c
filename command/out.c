// SPDX-License-Identifier: Apache-2.0
#include "out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/host.h"
#include "say.h"

static const char suffix[] = ".XXXXXX";

static bool fail(const char *path, int error)
{
    (void)say(ANSWER_WRONG, "%s cannot be written: %s", path, strerror(error));
    return false;
}

/* Gives a temporary file the mode of any new file. */
static void set_mode(int fd)
{
    const mode_t mask = umask(0);

    (void)umask(mask);
    (void)fchmod(fd, 0666 & ~mask);
}

bool out_open(struct out *out, const char *path)
{
    int fd;

    *out = (struct out){.file = stdout, .path = path};
    if (path == NULL)
        return true;
    out->temporary = tn_host_alloc(strlen(path) + sizeof suffix, 1);
    if (out->temporary == NULL)
        return fail(path, ENOMEM);
    memcpy(out->temporary, path, strlen(path));
    memcpy(out->temporary + strlen(path), suffix, sizeof suffix);
    fd = mkstemp(out->temporary);
    out->file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (out->file != NULL) {
        set_mode(fd);
        return true;
    }
    (void)fail(path, errno);
    if (fd >= 0) {
        (void)close(fd);
        (void)unlink(out->temporary);
    }
    tn_host_free(out->temporary);
    return false;
}

bool out_close(struct out *out)
{
    const char *name = out->path != NULL ? out->path : "standard output";
    int error = 0;

    errno = 0;
    if (fflush(out->file) != 0 || ferror(out->file) != 0)
        error = errno != 0 ? errno : EIO;
    if (out->path == NULL)
        return error == 0 || fail(name, error);
    if (error == 0 && fsync(fileno(out->file)) != 0 && errno != EINVAL)
        error = errno;
    if (fclose(out->file) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(out->temporary, out->path) != 0)
        error = errno;
    if (error != 0)
        (void)unlink(out->temporary);
    tn_host_free(out->temporary);
    return error == 0 || fail(name, error);
}

void out_abandon(struct out *out)
{
    if (out->path == NULL)
        return;
    (void)fclose(out->file);
    (void)unlink(out->temporary);
    tn_host_free(out->temporary);
}
