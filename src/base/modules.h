// SPDX-License-Identifier: Apache-2.0
/* modules.h -- which file's code was at which addresses: for tools that give the frames of a stack
 * their names, outside of the process and behind its end.
 *
 * Modules are records of a scroll (base/scroll.h), one for each mapping with code of an ELF object
 * that the loader has loaded:
 *
 *     word 0         the mapping's first address
 *     word 1         the address behind its end
 *     word 2         where the mapping begins in the file
 *     word 3         when the module was found, in nanoseconds of the monotonic clock
 *     word 4         bits 0 to 31: bytes of the build id, 0 to 64; bits 32 to 63: of the path, 0 to 1024
 *     from word 5    the build id, then the path, without a 0 at its end; zeros up to a whole word
 *
 * A record stays when its module is unloaded. Of several records with an address the newest stands
 * for the address, from the moment that it was found. Code without a file, as of a compiler at run
 * time, has no record. The path is the loader's own, and may be relative; that of the program is
 * what the kernel says. Of a longer path its end is kept. The kernel's own object has no file. Objects
 * of other namespaces of the loader (dlmopen) are not seen.
 *
 * Locking: any thread. A refresh takes the loader's lock, and inside of it a spin lock. The loader
 * calls functions of the program with its lock held, and they may wait for locks of the caller. A
 * refresh is therefore called without other locks, and not from a handler of a signal. */
#ifndef TARN_BASE_MODULES_H
#define TARN_BASE_MODULES_H

#include <link.h>
#include <stdatomic.h>

#include "base/scroll.h"
#include "base/spin.h"

enum {
    TN_MODULE_FIXED_WORDS = 5,
    TN_MODULE_BUILD_ID_MAX = 64,
    TN_MODULE_PATH_MAX = 1024,
};

struct tn_module_range;

/* In this process alone. */
struct tn_modules {
    struct tn_scroll scroll;           /* guarded by lock */
    struct tn_module_range *ranges;    /* guarded by lock; of the records, in their order */
    size_t range_count;                /* guarded by lock */
    size_t range_max;                  /* immutable: no more records have room */
    atomic_uint_fast64_t loaded_count; /* of objects, all in all, at the last refresh */
    struct tn_spin lock;
};

/* A table in zeroed memory that begins at a multiple of eight; the memory stays the caller's. False:
 * no memory. The table is empty until a refresh. */
bool tn_modules_init(struct tn_modules *modules, void *memory, size_t bytes);
void tn_modules_drop(struct tn_modules *modules); /* nobody calls it any more */

/* Adds what was loaded since the last refresh: to be called for each new stack. Where the loader has
 * loaded nothing since, the refresh is only a look at the loader's counter. */
void tn_modules_refresh(struct tn_modules *modules);

/* What a refresh does with each object, whose path is told: adds its mappings that are not known. */
void tn_modules_add(struct tn_modules *modules, const struct dl_phdr_info *object, const char *path,
                    uint64_t now);

/* The build id among an object's notes. Returns its bytes, at most 64; 0: none, or no notes. */
size_t tn_module_find_build_id(const unsigned char *notes, size_t bytes, const unsigned char **id);

/* What a reader believes of a module. */
struct tn_module {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint64_t found;
    size_t build_id_bytes;
    unsigned char build_id[TN_MODULE_BUILD_ID_MAX];
    char path[TN_MODULE_PATH_MAX + 1]; /* ends with 0; empty: no file */
};

/* Reads a module of any process. *next: the id of the next one, where this one was read. */
enum tn_scroll_answer tn_modules_read(const struct tn_scroll_reader *reader, uint32_t id,
                                      struct tn_module *module, uint32_t *next);

#endif
