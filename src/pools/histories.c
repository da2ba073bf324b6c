// SPDX-License-Identifier: Apache-2.0
/* A child of fork() has the list of its parent, whose threads may have had the lock. The child
 * looks at the number of the process first, also where base/fork.h was not told of it. */
#include "pools/histories.h"

#include <stddef.h>
#include <unistd.h>

#include "base/contract.h"

static struct tn_spin lock;
static tarn_device *first;           /* guarded by lock */
static atomic_uint_fast64_t process; /* which has added the devices; 0: none were */

void tn_histories_add(tarn_device *device)
{
    TN_ASSERT(device->history.file.head != NULL && device->history.next == NULL);
    atomic_store(&process, (uint64_t)getpid());
    tn_spin_acquire(&lock);
    device->history.next = first;
    first = device;
    tn_spin_release(&lock);
}

void tn_histories_remove(tarn_device *device)
{
    tarn_device **link = &first;

    tn_spin_acquire(&lock);
    while (*link != NULL && *link != device)
        link = &(*link)->history.next;
    if (*link != NULL)
        *link = device->history.next;
    tn_spin_release(&lock);
    device->history.next = NULL;
}

bool tn_histories_lock(uint64_t wait_ns)
{
    return atomic_load(&process) == (uint64_t)getpid() && tn_spin_acquire_for(&lock, wait_ns);
}

void tn_histories_unlock(void)
{
    tn_spin_release(&lock);
}

tarn_device *tn_histories_first(void)
{
    TN_ASSERT(tn_spin_is_taken(&lock));
    return first;
}
