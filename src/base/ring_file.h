// SPDX-License-Identifier: Apache-2.0
/* ring_file.h -- the file of a ring's pages, which outlives the process.
 *
 * The file is in memory: in the user's runtime folder, else in /dev/shm. It belongs to the user
 * alone (mode 0600). A process removes the file with its device. Of dead processes' files the newest
 * eight are kept, and the others are removed when the next process makes a file. Where the folder has
 * no room for it, the eight go as well, oldest first, as far as needed. A process locks its file with
 * flock(): the system ends the lock with the process, whatever killed it.
 *
 * Where no file can be made, the pages are the process's own memory.
 *
 * A file begins with a page about the others. Behind the ring's pages are areas of fixed sizes for the
 * user, and then parts for tables of the user's, which are added as they are needed, each twice as
 * large as the one before. All numbers are the machine's
 * own. A reader does not map the file, which could be cut short meanwhile, but copies bytes of it.
 *
 * Locking: none; a file belongs to its caller. Files of other processes come and go. */
#ifndef TARN_BASE_RING_FILE_H
#define TARN_BASE_RING_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ring.h"

enum {
    TN_RING_FILE_VERSION = 3,
    TN_RING_FILES_KEPT = 8, /* of processes that were killed */
    TN_RING_FOLDER_MAX = 200,
    TN_RING_PAGES_MAX = 1 << 24, /* 64 GiB */
    TN_RING_PARTS = 16,
    TN_RING_AREAS = 3,
    TN_RING_FIRST_PART_BYTES = 1 << 18,
    TN_RING_PATH_MAX = TN_RING_FOLDER_MAX + 100,
};

/* At the beginning of a file. */
struct tn_ring_file_head {
    atomic_uint_fast64_t magic;
    uint32_t version;
    uint32_t page_bytes;
    uint64_t page_count;      /* without this head's */
    uint64_t process;         /* its pid */
    uint64_t began;           /* nanoseconds since 1970 */
    uint64_t began_in_stamps; /* the same moment, as stamps tell the time */
    atomic_uint_fast64_t part_count;
    atomic_uint_fast64_t private_parts; /* a bit for each part that is not in the file */
    uint64_t area_bytes[TN_RING_AREAS]; /* multiples of a page */
    uint64_t notes[TN_RING_AREAS];      /* the user's, as tn_ring_file_make got them */
};

/* Where an area begins behind the ring's pages: they follow each other. area TN_RING_AREAS: where the
 * parts begin. */
size_t tn_ring_area_offset(const struct tn_ring_file_head *head, size_t area);

/* Of the part with this number, and where it begins behind the pages. */
static inline size_t tn_ring_part_bytes(size_t part)
{
    return (size_t)TN_RING_FIRST_PART_BYTES << part;
}

static inline size_t tn_ring_part_offset(size_t part)
{
    return tn_ring_part_bytes(part) - TN_RING_FIRST_PART_BYTES;
}

struct tn_ring_file {
    struct tn_ring_file_head *head; /* the mapped memory; NULL: none */
    size_t bytes;                   /* without the parts */
    uint64_t spare_bytes;
    void *parts[TN_RING_PARTS];
    size_t part_count;
    int fd;                      /* -1: the memory is private */
    int error;                   /* why it is private, an errno; 0: it is not */
    char path[TN_RING_PATH_MAX]; /* empty: private */
};

/* The folder for files of this user's processes. False: none that may be written, and neither the
 * user's alone nor /dev/shm. */
bool tn_ring_folder(char *folder, size_t bytes);

/* What a file has. */
struct tn_ring_plan {
    size_t page_count;
    size_t area_bytes[TN_RING_AREAS]; /* multiples of a page */
    uint64_t notes[TN_RING_AREAS];    /* for readers */
    /* So many pages get memory at once, and further ones by tn_ring_file_reserve; 0: all do. */
    size_t first_pages;
    uint64_t spare_bytes; /* that the file must leave in its folder to others */
};

/* By how many pages of a log the areas beside it are measured: small ones where it begins small. */
static inline size_t tn_ring_plan_pages(const struct tn_ring_plan *plan)
{
    const size_t pages = 8 * plan->first_pages;

    return pages != 0 && pages < plan->page_count ? pages : plan->page_count;
}

/* Makes a file in the folder by the plan, or private memory; folder NULL: private memory. False: no
 * memory, not even private. */
bool tn_ring_file_make(struct tn_ring_file *file, const char *folder,
                       const struct tn_ring_plan *plan);

/* The memory of an area, zeroed at first. */
static inline void *tn_ring_file_area(const struct tn_ring_file *file, size_t area)
{
    return (char *)file->head + TN_RING_PAGE_BYTES +
           (size_t)file->head->page_count * TN_RING_PAGE_BYTES +
           tn_ring_area_offset(file->head, area);
}

/* The pages of a file that was made. */
static inline void *tn_ring_file_pages(const struct tn_ring_file *file)
{
    return (char *)file->head + TN_RING_PAGE_BYTES;
}

/* A tn_ring_reserve: gives memory to further pages. False: the folder has no room. */
bool tn_ring_file_reserve(void *file, size_t page, size_t count);

/* Adds a part, which is zeroed, and private where the file has no room for it: NULL: no memory. The
 * new part is the last one. */
void *tn_ring_file_add_part(struct tn_ring_file *file);

/* Unmaps all, and removes the file. */
void tn_ring_file_remove(struct tn_ring_file *file);

/* A file of any process, to be read. */
struct tn_ring_reader {
    int fd;
    struct tn_ring_file_head head;
};

enum tn_ring_opened {
    TN_RING_OPENED,
    TN_RING_NO_FILE, /* it cannot be opened; errno tells */
    TN_RING_FOREIGN, /* no ring, another user's, or one that is cut short */
    TN_RING_VERSION, /* a ring of another version */
};

/* reader->fd is the caller's to close once the answer is OPENED. */
enum tn_ring_opened tn_ring_reader_open(struct tn_ring_reader *reader, const char *path);

/* How many parts the file has by now; notes which of them are private. */
size_t tn_ring_reader_parts(struct tn_ring_reader *reader);

/* Sources of the pages, and of the parts behind them: of a file that is read, whose private parts
 * cannot be, and of this process's own; the contexts are a struct tn_ring_reader and a struct tn_ring_file. */
bool tn_ring_from_file(void *context, size_t offset, void *bytes, size_t count);
bool tn_ring_from_own_file(void *context, size_t offset, void *bytes, size_t count);

/* Whether the process that made the file still runs, or a child that it has forked. */
bool tn_ring_reader_is_alive(const struct tn_ring_reader *reader);

#endif
