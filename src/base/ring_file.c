// SPDX-License-Identifier: Apache-2.0
/* A file's name is tarn-USER-TIME-PROCESS.ring, TIME in 16 hexadecimal digits: names sort by age.
 *
 * In /dev/shm, any user may make files of any name. A file is therefore made only where none was, is
 * opened only when it is no link, and removed only when it is the user's. */
#include "base/ring_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/fork.h"

enum { NAME_BYTES = 96, TRIES = 16, OWN_FILES = 64 };

/* 0x89, then TRING and the end of a line, on a machine that puts the lowest byte first */
static const uint64_t magic = 0x0a0d474e49525489;

/* Whether the folder is the user's, and no other user may write there. */
static bool is_own_folder(const char *folder)
{
    struct stat what;

    return stat(folder, &what) == 0 && S_ISDIR(what.st_mode) && what.st_uid == geteuid() &&
           (what.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool tn_ring_folder(char *folder, size_t bytes)
{
    const char *runtime = tn_environment("XDG_RUNTIME_DIR");
    int length;

    if (runtime == NULL || runtime[0] != '/' || !is_own_folder(runtime))
        runtime = "/dev/shm";
    length = snprintf(folder, bytes, "%s", runtime);
    return length > 0 && (size_t)length < bytes &&
           faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0;
}

static void name_prefix(char *prefix, size_t bytes)
{
    int length = snprintf(prefix, bytes, "tarn-%lu-", (unsigned long)geteuid());

    TN_ASSERT(length > 0 && (size_t)length < bytes);
}

static bool is_ring(const char *name)
{
    static const char suffix[] = ".ring";
    char prefix[NAME_BYTES];
    size_t length = strlen(name);

    name_prefix(prefix, sizeof prefix);
    return length < NAME_BYTES && length > sizeof suffix &&
           strncmp(name, prefix, strlen(prefix)) == 0 &&
           strcmp(name + length - (sizeof suffix - 1), suffix) == 0;
}

/* Whether the user's file is of no process that runs. */
static bool is_dead(int folder, const char *name)
{
    struct stat what;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool dead;

    if (fd < 0)
        return false;
    /* An empty file is being made. */
    dead = fstat(fd, &what) == 0 && S_ISREG(what.st_mode) && what.st_uid == geteuid() &&
           what.st_size > 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    (void)close(fd);
    return dead;
}

/* The newest files of dead processes, oldest first. */
struct kept {
    char names[TN_RING_FILES_KEPT + 1][NAME_BYTES];
    int count;
    int count_max;
};

/* Adds a file; the oldest of too many is removed. */
static void keep(struct kept *kept, int folder, const char *name)
{
    const size_t bytes = strlen(name) + 1;
    int at = kept->count;

    TN_ASSERT(kept->count <= kept->count_max && kept->count_max <= TN_RING_FILES_KEPT);
    TN_ASSERT(bytes <= NAME_BYTES);
    for (; at > 0 && strcmp(kept->names[at - 1], name) > 0; at--)
        memcpy(kept->names[at], kept->names[at - 1], NAME_BYTES);
    memcpy(kept->names[at], name, bytes);
    kept->count += 1;
    if (kept->count <= kept->count_max)
        return;
    (void)unlinkat(folder, kept->names[0], 0);
    kept->count -= 1;
    memmove(kept->names[0], kept->names[1], sizeof kept->names - NAME_BYTES);
}

/* Removes the files of dead processes but for so many, the newest. Any step may fail: then more are
 * left. */
static void remove_old(const char *path, int count_max)
{
    struct kept kept = {.count_max = count_max};
    DIR *folder = opendir(path);
    const struct dirent *entry;

    if (folder == NULL)
        return;
    while ((entry = readdir(folder)) != NULL) {
        if (is_ring(entry->d_name) && is_dead(dirfd(folder), entry->d_name))
            keep(&kept, dirfd(folder), entry->d_name);
    }
    (void)closedir(folder);
}

/* The files of this process: a child that has them open or mapped, too, would keep their locks. 0:
 * none; else a descriptor and 1. A file that finds no place is kept by children. */
static atomic_int own_files[OWN_FILES];

static void *map_shared(const struct tn_ring_file *file, size_t offset, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, (off_t)offset);

    if (memory == MAP_FAILED)
        return NULL;
    (void)madvise(memory, bytes, MADV_DONTFORK);
    return memory;
}

static void close_in_child(void)
{
    for (size_t i = 0; i < OWN_FILES; i++) {
        const int file = atomic_exchange(&own_files[i], 0);

        if (file != 0)
            (void)close(file - 1);
    }
}

static void swap_own_file(int from, int to)
{
    for (size_t i = 0; i < OWN_FILES; i++) {
        int is = from;

        if (atomic_compare_exchange_strong(&own_files[i], &is, to))
            return;
    }
}

/* A new file of the user's in the folder; its path is in file. -1: errno tells. */
static int create(struct tn_ring_file *file, const char *folder)
{
    char prefix[NAME_BYTES];
    int fd = -1;

    name_prefix(prefix, sizeof prefix);
    for (int i = 0; i < TRIES && fd < 0; i++) {
        int length = snprintf(file->path, sizeof file->path, "%s/%s%016" PRIx64 "-%ld.ring", folder,
                              prefix, tn_clock_nanoseconds(CLOCK_REALTIME), (long)getpid());

        if (length < 0 || (size_t)length >= sizeof file->path) {
            errno = ENAMETOOLONG;
            break;
        }
        fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    if (fd < 0)
        file->path[0] = '\0';
    return fd;
}

/* Waits for the lock of a file that this process has made: others take it for a moment, to see
 * whether the file is dead. An errno. */
static int lock_file(int fd)
{
    struct stat what;

    while (flock(fd, LOCK_EX) != 0) {
        if (errno != EINTR)
            return errno;
    }
    return fstat(fd, &what) == 0 && what.st_nlink > 0 ? 0 : ENOENT;
}

/* Whether a file of the process may be so large: else the system would end the process. */
static bool may_have(size_t bytes)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur;
}

/* An errno. */
static int reserve(int fd, size_t offset, size_t bytes)
{
    int error;

    if (!may_have(offset + bytes))
        return EFBIG;
    do {
        error = posix_fallocate(fd, (off_t)offset, (off_t)bytes);
    } while (error == EINTR);
    return error;
}

/* Whether the file system has so much room, as far as it tells. */
static bool has_room(int fd, uint64_t bytes)
{
    struct statvfs system;

    return fstatvfs(fd, &system) != 0 || system.f_blocks == 0 ||
           system.f_bavail >= bytes / system.f_frsize;
}

/* Whether the file may grow by so many bytes, and leave to others what it must. */
static bool may_take(const struct tn_ring_file *file, uint64_t bytes)
{
    return file->spare_bytes == 0 || has_room(file->fd, bytes + file->spare_bytes);
}

/* All of the file but the pages that get memory later. An errno. */
static int reserve_first(const struct tn_ring_file *file, const struct tn_ring_plan *plan)
{
    const size_t end = (plan->page_count + 1) * TN_RING_PAGE_BYTES;
    int error = ENOSPC;

    if (!may_take(file, file->bytes))
        return error;
    if (plan->first_pages == 0)
        return reserve(file->fd, 0, file->bytes);
    error = reserve(file->fd, 0, (plan->first_pages + 1) * TN_RING_PAGE_BYTES);
    if (error == 0 && !may_have(file->bytes))
        error = EFBIG;
    if (error == 0 && ftruncate(file->fd, (off_t)file->bytes) != 0)
        error = errno;
    if (error == 0 && file->bytes > end)
        error = reserve(file->fd, end, file->bytes - end);
    return error;
}

bool tn_ring_file_reserve(void *context, size_t page, size_t count)
{
    const struct tn_ring_file *file = context;
    const size_t bytes = count * TN_RING_PAGE_BYTES;

    TN_ASSERT(file->head != NULL && page + count <= file->head->page_count);
    return file->fd < 0 || (may_take(file, bytes) &&
                            reserve(file->fd, (page + 1) * TN_RING_PAGE_BYTES, bytes) == 0);
}

/* Maps a file's bytes, which the folder has room for; NULL: errno tells, and there is no file. */
static void *map_file(struct tn_ring_file *file, const char *folder,
                      const struct tn_ring_plan *plan)
{
    void *memory = NULL;
    int error;

    file->fd = create(file, folder);
    if (file->fd < 0)
        return NULL;
    error = lock_file(file->fd);
    if (error == 0)
        error = reserve_first(file, plan);
    if (error == 0) {
        memory = map_shared(file, 0, file->bytes);
        error = errno;
    }
    if (memory != NULL) {
        tn_fork_tell(close_in_child);
        swap_own_file(0, file->fd + 1);
        return memory;
    }
    (void)unlink(file->path);
    (void)close(file->fd);
    file->path[0] = '\0';
    file->fd = -1;
    errno = error;
    return NULL;
}

/* The same. Where the folder has no room, files of dead processes go, oldest first. */
static void *map_in_folder(struct tn_ring_file *file, const char *folder,
                           const struct tn_ring_plan *plan)
{
    void *memory = NULL;

    for (int kept = TN_RING_FILES_KEPT; memory == NULL && kept >= 0; kept--) {
        remove_old(folder, kept);
        memory = map_file(file, folder, plan);
        if (memory == NULL && errno != ENOSPC && errno != EDQUOT)
            return NULL;
    }
    return memory;
}

static void *map_private(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return memory != MAP_FAILED ? memory : NULL;
}

size_t tn_ring_area_offset(const struct tn_ring_file_head *head, size_t area)
{
    uint64_t offset = 0;

    TN_ASSERT(area <= TN_RING_AREAS);
    for (size_t i = 0; i < area; i++)
        offset += head->area_bytes[i];
    return (size_t)offset;
}

bool tn_ring_file_make(struct tn_ring_file *file, const char *folder,
                       const struct tn_ring_plan *plan)
{
    const size_t page_count = plan->page_count;
    void *memory = NULL;

    TN_ASSERT(page_count > 0 && page_count < SIZE_MAX / TN_RING_PAGE_BYTES - 1);
    TN_ASSERT(plan->first_pages <= page_count);
    *file = (struct tn_ring_file){
        .bytes = (page_count + 1) * TN_RING_PAGE_BYTES, .spare_bytes = plan->spare_bytes, .fd = -1};
    for (size_t i = 0; i < TN_RING_AREAS; i++) {
        TN_ASSERT(plan->area_bytes[i] % TN_RING_PAGE_BYTES == 0);
        file->bytes += plan->area_bytes[i];
    }
    errno = ENOENT;
    if (folder != NULL)
        memory = map_in_folder(file, folder, plan);
    file->error = memory != NULL ? 0 : errno;
    if (memory == NULL)
        memory = map_private(file->bytes);
    if (memory == NULL)
        return false;
    file->head = memory;
    *file->head = (struct tn_ring_file_head){
        .version = TN_RING_FILE_VERSION,
        .page_bytes = TN_RING_PAGE_BYTES,
        .page_count = page_count,
        .process = (uint64_t)getpid(),
        .began = tn_clock_nanoseconds(CLOCK_REALTIME),
        .began_in_stamps = tn_clock_nanoseconds(CLOCK_MONOTONIC),
    };
    for (size_t i = 0; i < TN_RING_AREAS; i++) {
        file->head->area_bytes[i] = plan->area_bytes[i];
        file->head->notes[i] = plan->notes[i];
    }
    /* Last: from now on it is a ring. */
    atomic_store_explicit(&file->head->magic, magic, memory_order_release);
    return true;
}

/* NULL: the file has no room. */
static void *map_part(const struct tn_ring_file *file, size_t part)
{
    size_t offset = file->bytes + tn_ring_part_offset(part);
    size_t bytes = tn_ring_part_bytes(part);

    if (file->fd < 0 || reserve(file->fd, offset, bytes) != 0)
        return NULL;
    return map_shared(file, offset, bytes);
}

void *tn_ring_file_add_part(struct tn_ring_file *file)
{
    const size_t part = file->part_count; /* not the head's, which others may write */
    void *memory;

    if (part == TN_RING_PARTS)
        return NULL;
    TN_ASSERT(file->parts[part] == NULL);
    memory = map_part(file, part);
    if (memory == NULL) {
        memory = map_private(tn_ring_part_bytes(part));
        if (memory == NULL)
            return NULL;
        atomic_fetch_or_explicit(&file->head->private_parts, UINT64_C(1) << part,
                                 memory_order_release);
    }
    file->parts[part] = memory;
    file->part_count = part + 1;
    atomic_store_explicit(&file->head->part_count, part + 1, memory_order_release);
    return memory;
}

void tn_ring_file_remove(struct tn_ring_file *file)
{
    TN_ASSERT(file->head != NULL);
    TN_ASSERT((file->fd < 0) == (file->path[0] == '\0'));
    if (file->fd >= 0) {
        (void)unlink(file->path);
        swap_own_file(file->fd + 1, 0);
        (void)close(file->fd);
    }
    for (size_t part = 0; part < TN_RING_PARTS; part++) {
        if (file->parts[part] != NULL)
            (void)munmap(file->parts[part], tn_ring_part_bytes(part));
    }
    (void)munmap(file->head, file->bytes);
    *file = (struct tn_ring_file){.fd = -1};
}

static bool read_at(int fd, size_t offset, void *bytes, size_t count)
{
    size_t done = 0;

    while (done < count) {
        ssize_t got = pread(fd, (char *)bytes + done, count - done, (off_t)(offset + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

/* Whether a writer may have planned such areas. */
static bool are_areas(const struct tn_ring_file_head *head)
{
    for (size_t i = 0; i < TN_RING_AREAS; i++) {
        if (head->area_bytes[i] % TN_RING_PAGE_BYTES != 0 ||
            head->area_bytes[i] > (uint64_t)TN_RING_PAGES_MAX * TN_RING_PAGE_BYTES)
            return false;
    }
    return true;
}

/* Whether the file is the user's, and has all the pages that its head promises. */
static bool is_whole(int fd, const struct tn_ring_file_head *head)
{
    struct stat what;

    return fstat(fd, &what) == 0 && S_ISREG(what.st_mode) &&
           (what.st_uid == geteuid() || geteuid() == 0) && head->page_count > 0 &&
           head->page_bytes == TN_RING_PAGE_BYTES && head->page_count <= TN_RING_PAGES_MAX &&
           are_areas(head) &&
           (uint64_t)what.st_size >= (head->page_count + 1) * TN_RING_PAGE_BYTES +
                                         tn_ring_area_offset(head, TN_RING_AREAS);
}

enum tn_ring_opened tn_ring_reader_open(struct tn_ring_reader *reader, const char *path)
{
    enum tn_ring_opened opened = TN_RING_OPENED;

    reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (reader->fd < 0)
        return TN_RING_NO_FILE;
    if (!read_at(reader->fd, 0, &reader->head, sizeof reader->head) ||
        atomic_load(&reader->head.magic) != magic)
        opened = TN_RING_FOREIGN;
    else if (reader->head.version != TN_RING_FILE_VERSION)
        opened = TN_RING_VERSION;
    else if (!is_whole(reader->fd, &reader->head))
        opened = TN_RING_FOREIGN;
    if (opened != TN_RING_OPENED) {
        (void)close(reader->fd);
        reader->fd = -1;
    }
    return opened;
}

/* The part with this offset behind the pages; TN_RING_PARTS: none. */
static size_t part_at(size_t offset)
{
    size_t part = 0;

    while (part < TN_RING_PARTS && offset >= tn_ring_part_offset(part + 1))
        part += 1;
    return part;
}

/* Whether the offset is in a part of which the file has but a hole. */
static bool is_private(const struct tn_ring_file_head *head, size_t offset)
{
    const size_t parts =
        (size_t)head->page_count * TN_RING_PAGE_BYTES + tn_ring_area_offset(head, TN_RING_AREAS);

    return offset >= parts && (atomic_load_explicit(&head->private_parts, memory_order_relaxed) >>
                                   part_at(offset - parts) &
                               1) != 0;
}

bool tn_ring_from_file(void *context, size_t offset, void *bytes, size_t count)
{
    const struct tn_ring_reader *reader = context;
    bool done;

    TN_ASSERT(reader->fd >= 0);
    if (is_private(&reader->head, offset))
        return false;
    done = read_at(reader->fd, TN_RING_PAGE_BYTES + offset, bytes, count);
    __sync_synchronize(); /* a call of the system is no barrier */
    return done;
}

size_t tn_ring_reader_parts(struct tn_ring_reader *reader)
{
    uint64_t count;
    uint64_t private_parts;

    if (!read_at(reader->fd, offsetof(struct tn_ring_file_head, part_count), &count, sizeof count))
        return 0;
    __sync_synchronize(); /* a call of the system is no barrier; a part's bit comes before its count */
    if (!read_at(reader->fd, offsetof(struct tn_ring_file_head, private_parts), &private_parts,
                 sizeof private_parts))
        return 0;
    atomic_store_explicit(&reader->head.private_parts, private_parts, memory_order_relaxed);
    return (size_t)tn_min(count, TN_RING_PARTS);
}

bool tn_ring_from_own_file(void *context, size_t offset, void *bytes, size_t count)
{
    const struct tn_ring_file *file = context;
    const char *from = (const char *)file->head + TN_RING_PAGE_BYTES + offset;

    TN_ASSERT(offset % sizeof(uint64_t) == 0 && count % sizeof(uint64_t) == 0);
    if (offset >= file->bytes - TN_RING_PAGE_BYTES) {
        size_t part;

        offset -= file->bytes - TN_RING_PAGE_BYTES;
        part = part_at(offset);
        if (part == TN_RING_PARTS || file->parts[part] == NULL)
            return false;
        from = (const char *)file->parts[part] + (offset - tn_ring_part_offset(part));
    }
    tn_ring_copy_words(bytes, (const void *)from, count / sizeof(uint64_t));
    return true;
}

bool tn_ring_reader_is_alive(const struct tn_ring_reader *reader)
{
    TN_ASSERT(reader->fd >= 0);
    if (flock(reader->fd, LOCK_SH | LOCK_NB) != 0)
        return true;
    (void)flock(reader->fd, LOCK_UN);
    return false;
}
