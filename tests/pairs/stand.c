// SPDX-License-Identifier: Apache-2.0
/* The places where a thread may stand are its calls of the driver, which the library finds in a table that this
 * file puts in front of the driver's, and those where it takes a lock of the library's. Who stands may hold locks: what the
 * other thread then does may wait for them, so standing ends after a while. */
#include "pairs/pairs.h"

#include <stdlib.h>
#include <time.h>

#include "base/lock.h"
#include "driver/driver.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t wanted; /* the place; guarded by the lock, as all here */
static uint64_t places;
static bool stands;
static bool has_stood;
static bool may_go;
static bool is_over;
static const char *where = "nowhere";
static _Thread_local bool is_watched;
static _Thread_local const char *refused;
static _Thread_local uint64_t refusals;

/* Sanitizers make the other thread slow. */
static struct timespec patience(void)
{
    struct timespec until;
    const char *slow = getenv("CK_TIMEOUT_MULTIPLIER");

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += slow != NULL ? 300000000 : 25000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return until;
}

static void stand(const char *place)
{
    struct timespec until = patience();
    int result = 0;

    stands = true;
    has_stood = true;
    where = place;
    (void)pthread_cond_broadcast(&changed);
    while (!may_go && result == 0)
        result = pthread_cond_timedwait(&changed, &lock, &until);
    stands = false;
}

static void pass(const char *place)
{
    int cancelling = 0;

    if (!is_watched)
        return;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    (void)pthread_mutex_lock(&lock);
    places += 1;
    if (places == wanted)
        stand(place);
    (void)pthread_mutex_unlock(&lock);
    (void)pthread_setcancelstate(cancelling, NULL);
}

void pairs_stand_at(uint64_t place)
{
    (void)pthread_mutex_lock(&lock);
    wanted = place;
    (void)pthread_mutex_unlock(&lock);
    is_watched = true;
}

void pairs_stand_inherit(bool watched)
{
    is_watched = watched;
}

bool pairs_stands_here(void)
{
    return is_watched;
}

uint64_t pairs_stand_over(void)
{
    uint64_t count;

    is_watched = false;
    (void)pthread_mutex_lock(&lock);
    is_over = true;
    count = places;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
    return count;
}

bool pairs_has_stood(void)
{
    return has_stood;
}

void pairs_await_standing(void)
{
    (void)pthread_mutex_lock(&lock);
    while (!stands && !is_over)
        (void)pthread_cond_wait(&changed, &lock);
    (void)pthread_mutex_unlock(&lock);
}

void pairs_go(void)
{
    (void)pthread_mutex_lock(&lock);
    may_go = true;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

const char *pairs_place(void)
{
    return where;
}

/* The table in front of the driver's ----------------------------------------------------------- */

static const struct tn_driver *honest;

uint64_t pairs_refuse(const char *function)
{
    uint64_t count = refusals;

    refused = function;
    refusals = 0;
    return count;
}

static bool refuse(const char *function)
{
    if (refused == NULL || strcmp(refused, function) != 0)
        return false;
    refusals += 1;
    return true;
}

/* A thread that is cancelled inside the simulator would leave that locked, so it is not: what is looked for is the
 * library's own waits. */

#define STANDING_CALL(name, symbol, version, parameters, names)                                    \
    static tn_cu_result standing_##name parameters                                                 \
    {                                                                                              \
        tn_cu_result result;                                                                       \
        int cancelling = 0;                                                                        \
                                                                                                   \
        pass(#name);                                                                               \
        if (refuse(#name))                                                                         \
            return TN_CUDA_ERROR_UNKNOWN;                                                          \
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);                         \
        result = honest->name names;                                                               \
        (void)pthread_setcancelstate(cancelling, NULL);                                            \
        return result;                                                                             \
    }
TN_CUDA_LIBRARY_FUNCTIONS(STANDING_CALL)
#undef STANDING_CALL

tarn_status __real_tn_driver_load(const struct tn_driver **driver);
tarn_status __wrap_tn_driver_load(const struct tn_driver **driver);
tarn_status __wrap_tn_driver_load(const struct tn_driver **driver)
{
    static struct tn_driver table;
    const struct tn_driver *loaded = NULL;
    tarn_status status = __real_tn_driver_load(&loaded);

    if (status != TARN_OK)
        return status;
    if (honest == NULL) {
        honest = loaded;
        table = *loaded;
#define STANDING_FIELD(name, symbol, version, parameters, names) table.name = standing_##name;
        TN_CUDA_LIBRARY_FUNCTIONS(STANDING_FIELD)
#undef STANDING_FIELD
    }
    *driver = &table;
    return TARN_OK;
}

void __real_tn_lock_acquire(struct tn_lock *taken);
void __wrap_tn_lock_acquire(struct tn_lock *taken);
void __wrap_tn_lock_acquire(struct tn_lock *taken)
{
    pass("a lock");
    __real_tn_lock_acquire(taken);
}
