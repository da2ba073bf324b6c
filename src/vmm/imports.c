// SPDX-License-Identifier: Apache-2.0
/* Trade-offs: an address is looked up by a walk over all mapped imports, for failed calls and reports
 * alone. */
#include "vmm/imports.h"

#include <stddef.h>

#include "base/contract.h"
#include "base/note.h"
#include "driver/mapping.h"
#include "vmm/address_table.h"

static struct tn_lock imports_lock = TN_LOCK_INIT(TN_RANK_IMPORTS);
static struct tn_imports *first_imports; /* guarded by imports_lock */
static atomic_size_t all_mapped_count;   /* of all devices; written under the lock */

void tn_imports_init(struct tn_imports *imports, struct tn_gpu *gpu, uint64_t limit_bytes)
{
    TN_ASSERT(imports->newest == NULL);
    imports->gpu = gpu;
    imports->limit_bytes = limit_bytes;
    imports->peer_mask = 0;
    tn_lock_acquire(&imports_lock);
    imports->next = first_imports;
    first_imports = imports;
    tn_lock_release(&imports_lock);
}

void tn_imports_fini(struct tn_imports *imports)
{
    struct tn_imports **link = &first_imports;

    TN_ASSERT(imports->newest == NULL && atomic_load(&imports->mapped_bytes) == 0);
    tn_lock_acquire(&imports_lock);
    while (*link != imports)
        link = &(*link)->next;
    *link = imports->next;
    tn_lock_release(&imports_lock);
}

void tn_import_init(struct tn_import *import, struct tn_memory **memories, size_t count)
{
    TN_ASSERT(count > 0 && count <= TN_IMPORT_RUN_MAX);
    *import = (struct tn_import){.memories = memories, .count = count};
    for (size_t i = 0; i < count; i++)
        import->bytes += memories[i]->bytes;
}

static void unlink_import(struct tn_imports *imports, struct tn_import *import)
{
    *(import->newer != NULL ? &import->newer->older : &imports->newest) = import->older;
    *(import->older != NULL ? &import->older->newer : &imports->oldest) = import->newer;
    import->newer = NULL;
    import->older = NULL;
}

static void link_newest(struct tn_imports *imports, struct tn_import *import)
{
    TN_ASSERT(import->newer == NULL && import->older == NULL);
    import->older = imports->newest;
    *(imports->newest != NULL ? &imports->newest->newer : &imports->oldest) = import;
    imports->newest = import;
}

/* Unmaps the first so many memories, and gives the addresses back. */
static void unmap_first(struct tn_imports *imports, struct tn_import *import, uint64_t base,
                        size_t count)
{
    uint64_t at = base;

    for (size_t i = 0; i < count; i++) {
        tn_gpu_unmap(imports->gpu, at, import->memories[i]->bytes);
        at += import->memories[i]->bytes;
    }
    tn_gpu_free_addresses(imports->gpu, base, import->bytes);
}

static tarn_status map(struct tn_imports *imports, struct tn_import *import)
{
    uint64_t base = 0;
    uint64_t at;
    tarn_status status =
        tn_gpu_reserve_addresses(imports->gpu, import->bytes, TN_PAGE_BYTES, 0, &base);

    TN_ASSERT(import->address == 0 && import->use_count == 0);
    if (status != TARN_OK)
        return status;
    at = base;
    for (size_t i = 0; i < import->count; i++) {
        const struct tn_memory *memory = import->memories[i];

        status = tn_gpu_map(imports->gpu, at, memory->bytes, memory->handle, imports->peer_mask,
                            memory->properties.host);
        if (status != TARN_OK) {
            unmap_first(imports, import, base, i);
            return status;
        }
        at += memory->bytes;
    }
    import->address = base;
    link_newest(imports, import);
    imports->unused_bytes += import->bytes;
    atomic_fetch_add(&imports->mapped_bytes, import->bytes);
    atomic_fetch_add(&imports->mapped_count, 1);
    atomic_fetch_add(&all_mapped_count, 1);
    tn_note_write(imports->history, TN_NOTE_IMPORT_MAPPED, 0,
                  TN_OPERANDS(base, import->bytes, import->count));
    return TARN_OK;
}

static void unmap(struct tn_imports *imports, struct tn_import *import)
{
    TN_ASSERT(import->address != 0 && import->use_count == 0);
    TN_ASSERT(imports->unused_bytes >= import->bytes); /* V10 */
    unlink_import(imports, import);
    unmap_first(imports, import, import->address, import->count);
    tn_note_write(imports->history, TN_NOTE_IMPORT_UNMAPPED, 0,
                  TN_OPERANDS(import->address, import->bytes));
    import->address = 0;
    imports->unused_bytes -= import->bytes;
    atomic_fetch_sub(&imports->mapped_bytes, import->bytes);
    atomic_fetch_sub(&imports->mapped_count, 1);
    atomic_fetch_sub(&all_mapped_count, 1);
}

static uint64_t shrink(struct tn_imports *imports, uint64_t keep_bytes)
{
    uint64_t unmapped = 0;
    struct tn_import *newer;

    for (struct tn_import *import = imports->oldest;
         import != NULL && imports->unused_bytes > keep_bytes; import = newer) {
        newer = import->newer;
        if (import->use_count > 0)
            continue;
        unmapped += import->bytes;
        unmap(imports, import);
    }
    return unmapped;
}

void tn_import_fini(struct tn_imports *imports, struct tn_import *import)
{
    tn_lock_acquire(&imports_lock);
    TN_ASSERT(import->use_count == 0);
    if (import->address != 0)
        unmap(imports, import);
    tn_lock_release(&imports_lock);
}

tarn_status tn_import_use(struct tn_imports *imports, struct tn_import *import, uint64_t *address)
{
    tarn_status status = TARN_OK;

    tn_lock_acquire(&imports_lock);
    if (import->address == 0)
        status = map(imports, import);
    if (status == TARN_OK) {
        if (import->use_count == 0)
            imports->unused_bytes -= import->bytes;
        import->use_count += 1;
        *address = import->address;
    }
    tn_lock_release(&imports_lock);
    return status;
}

void tn_import_leave(struct tn_imports *imports, struct tn_import *import)
{
    tn_lock_acquire(&imports_lock);
    TN_ASSERT(import->use_count > 0 && import->address != 0);
    import->use_count -= 1;
    if (import->use_count == 0) {
        imports->unused_bytes += import->bytes;
        unlink_import(imports, import);
        link_newest(imports, import);
        (void)shrink(imports, imports->limit_bytes);
    }
    tn_lock_release(&imports_lock);
}

/* Takes access back from the imports up to the last one, and there from the first memories. */
static void remove_peer(struct tn_imports *imports, const struct tn_import *last, size_t count,
                        int peer)
{
    const struct tn_import *import = imports->newest;

    while (import != NULL) {
        uint64_t at = import->address;

        for (size_t i = 0; i < (import == last ? count : import->count); i++) {
            tn_gpu_remove_access(imports->gpu, at, import->memories[i]->bytes, peer);
            at += import->memories[i]->bytes;
        }
        import = import == last ? NULL : import->older;
    }
}

/* *given: the number of memories with access. */
static tarn_status add_peer(const struct tn_imports *imports, const struct tn_import *import,
                            int peer, size_t *given)
{
    uint64_t at = import->address;
    tarn_status status = TARN_OK;

    for (*given = 0; *given < import->count; *given += 1) {
        status = tn_gpu_add_access(imports->gpu, at, import->memories[*given]->bytes, peer);
        if (status != TARN_OK)
            break;
        at += import->memories[*given]->bytes;
    }
    return status;
}

tarn_status tn_imports_add_peer(struct tn_imports *imports, int peer)
{
    const uint64_t mask = (uint64_t)1 << peer;
    tarn_status status = TARN_OK;

    TN_ASSERT(peer >= 0 && peer < TN_GPU_PEERS_MAX);
    tn_lock_acquire(&imports_lock);
    for (const struct tn_import *import = imports->newest;
         (imports->peer_mask & mask) == 0 && status == TARN_OK && import != NULL;
         import = import->older) {
        size_t given;

        status = add_peer(imports, import, peer, &given);
        if (status != TARN_OK)
            remove_peer(imports, import, given, peer);
    }
    if (status == TARN_OK)
        imports->peer_mask |= mask;
    tn_lock_release(&imports_lock);
    return status;
}

/* NULL: none of the device's. */
static const struct tn_import *find_in(const struct tn_imports *imports, uint64_t address)
{
    const struct tn_import *import = imports->newest;

    TN_ASSERT(tn_lock_is_held(&imports_lock));
    while (import != NULL && address - import->address >= import->bytes)
        import = import->older;
    return import;
}

bool tn_import_is_mapped(const struct tn_import *import)
{
    bool is_mapped;

    tn_lock_acquire(&imports_lock);
    is_mapped = import->address != 0;
    tn_lock_release(&imports_lock);
    return is_mapped;
}

bool tn_import_find(uint64_t address, struct tn_import_place *place)
{
    const struct tn_import *found = NULL;

    if (atomic_load(&all_mapped_count) == 0)
        return false;
    tn_lock_acquire(&imports_lock);
    for (const struct tn_imports *imports = first_imports; imports != NULL && found == NULL;
         imports = imports->next) {
        found = find_in(imports, address);
        place->ordinal = imports->gpu->ordinal;
    }
    if (found != NULL) {
        size_t i = 0;

        place->address = found->address;
        place->bytes = found->bytes;
        place->memory_address = found->address;
        while (address - place->memory_address >= found->memories[i]->bytes)
            place->memory_address += found->memories[i++]->bytes;
        place->memory_bytes = found->memories[i]->bytes;
    }
    tn_lock_release(&imports_lock);
    return found != NULL;
}

bool tn_import_is_at(uint64_t address)
{
    struct tn_import_place place;

    return tn_import_find(address, &place);
}

uint64_t tn_imports_shrink(struct tn_imports *imports, uint64_t keep_bytes)
{
    uint64_t unmapped;

    tn_lock_acquire(&imports_lock);
    unmapped = shrink(imports, keep_bytes);
    tn_lock_release(&imports_lock);
    return unmapped;
}

void tn_imports_usage(struct tn_imports *imports, uint64_t *count, uint64_t *bytes,
                      uint64_t *unused_bytes)
{
    tn_lock_acquire(&imports_lock);
    *count = atomic_load(&imports->mapped_count);
    *bytes = atomic_load(&imports->mapped_bytes);
    *unused_bytes = imports->unused_bytes;
    TN_ASSERT(*unused_bytes <= *bytes); /* V10 */
    tn_lock_release(&imports_lock);
}
