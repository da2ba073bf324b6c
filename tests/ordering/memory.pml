// SPDX-License-Identifier: Apache-2.0
/* Memory as 64-bit ARM has it, for Spin. Each thread has a buffer with one store for each word. The stores of different words
 * come to memory in any order, and whenever they like. A load sees the thread's own store that is under way, else memory.
 * That a load is satisfied before what stands in front of it is said where it can be: EARLY reads there, and the model
 * chooses. Orders of the code are these:
 *
 *   STORE_RELEASE   comes to memory when all stores in front of it have
 *   LOAD_ACQUIRE    nothing that stands behind it is read EARLY
 *   FENCE           the thread's stores have come to memory
 *   HEAVY           the kernel's fence (membarrier): all threads' stores have come to memory, one thread after the other
 *
 * The includer defines THREADS and WORDS. */
int mem[WORDS];
bool waits[THREADS * WORDS];
int put[THREADS * WORDS];

#define AT(t, w) ((t) * WORDS + (w))

inline STORE(th_, wd_, vl_) {
    atomic { !waits[AT(th_, wd_)] -> put[AT(th_, wd_)] = vl_; waits[AT(th_, wd_)] = true }
}

/* A release has the buffer to itself: what stands in front of it comes first, and what stands behind waits for nothing. */
inline STORE_RELEASE(th_, wd_, vl_) {
    EMPTY(th_);
    STORE(th_, wd_, vl_)
}

inline LOAD(th_, wd_, to_) {
    d_step { if :: waits[AT(th_, wd_)] -> to_ = put[AT(th_, wd_)] :: else -> to_ = mem[wd_] fi }
}

#if WORDS == 2
#define IS_EMPTY(t) (!waits[AT(t, 0)] && !waits[AT(t, 1)])
#elif WORDS == 3
#define IS_EMPTY(t) (!waits[AT(t, 0)] && !waits[AT(t, 1)] && !waits[AT(t, 2)])
#else
#define IS_EMPTY(t) (!waits[AT(t, 0)] && !waits[AT(t, 1)] && !waits[AT(t, 2)] && !waits[AT(t, 3)] && \
                     !waits[AT(t, 4)])
#endif

inline EMPTY(th_) { IS_EMPTY(th_) }
inline FENCE(th_) { IS_EMPTY(th_) }

/* Brings stores to memory: any of them, at any time. */
active proctype memory() {
    int i;
end:
    do
    :: atomic {
           select(i : 0 .. (THREADS * WORDS - 1));
           if
           :: waits[i] -> mem[i % WORDS] = put[i]; waits[i] = false
           :: else
           fi
       }
    od
}
