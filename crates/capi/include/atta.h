/* atta.h: the library itself: start, end, waiting, cancelling, counters. The operations are in pxfs.h.
 *
 * Functions return 0, or -1 with errno; those that do not, say so. All may be called from any thread, and from
 * continuations unless they say so. NULL where memory is asked for is an error (EFAULT), never a crash.
 *
 * fork: in a child that does not call exec, everything fails with EOWNERDEAD: the library's threads are not there. A child
 * that calls exec starts afresh. A process that forks before it first uses the library is not concerned.
 */
#ifndef ATTA_H
#define ATTA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define ATTA_ASSERT(what, text) static_assert(what, text)
extern "C" {
#else
#define ATTA_ASSERT(what, text) _Static_assert(what, text)
#endif

/* What carries operations out. */
enum {
    ATTA_BEST = 0,    /* the kernel's ring (io_uring), else threads; the environment's ATTA_AIO=ring|threads|best decides
                         for programs that leave it at this */
    ATTA_RING = 1,    /* the ring, or atta_init fails */
    ATTA_THREADS = 2  /* threads: for tools that do not know the ring, such as valgrind */
};

/* Flags of struct atta_options. */
enum {
    ATTA_INLINE = 1,  /* continuations run on the progress thread: they must be tiny, since nothing else goes on meanwhile */
    ATTA_NO_SPIN = 2  /* the progress thread sleeps as soon as there is nothing to do */
};

/* How the library works. Fill it with zeros, set size, and set what is to be different: zero is the default everywhere.
 * New members are added at the end; what was compiled with an older header goes on working. */
struct atta_options {
    size_t size;                   /* sizeof(struct atta_options) */
    uint32_t backend;              /* ATTA_BEST, ATTA_RING, ATTA_THREADS */
    uint32_t flags;
    uint32_t threads;              /* of ATTA_THREADS, and for what the ring cannot do (16); long reads beside a
                                      ring have others, as many or four for each processor */
    uint32_t depth;                /* operations that run on the ring at a time (256) */
    uint32_t continuation_threads; /* threads that run continuations (2) */
    uint32_t kernel_threads;       /* kernel threads of the ring, at most (what the kernel chooses) */
    uint32_t spin_us;              /* how long the progress thread looks around before it sleeps, at most (100 us) */
    uint32_t grace_ms;             /* how long what was cancelled may go on, unless it uses memory of the program (1 s) */
    uint64_t pending;              /* operations under way, at most; more are refused with EAGAIN (any number) */
};

/* How often things happened. Set size before the call. */
struct atta_counts {
    size_t size;            /* sizeof(struct atta_counts) */
    uint64_t submitted;     /* operations that were submitted */
    uint64_t pending;       /* operations that have not ended */
    uint64_t woken;         /* times that a submission had to wake the progress thread: one system call */
    uint64_t run_by_waiter; /* operations that whoever waited for them carried out */
};

ATTA_ASSERT(sizeof(size_t) == 8, "64-bit Linux");
ATTA_ASSERT(sizeof(struct atta_options) == 48, "struct atta_options as the library has it");
ATTA_ASSERT(sizeof(struct atta_counts) == 40, "struct atta_counts as the library has it");

/* Starts the library; NULL: with the defaults. A program that never calls it gets the defaults with its first operation.
 * EALREADY: it runs. EINVAL, E2BIG: options that this library does not know. ENOSYS, EPERM: no ring, though ATTA_RING was
 * asked for. After atta_shutdown it starts anew. */
int atta_init(const struct atta_options *options);

/* How atta_shutdown treats what is under way. */
enum {
    ATTA_DRAIN = 0,  /* it may end by itself within timeout_ms (negative: however long that takes), then it is cancelled */
    ATTA_CANCEL = 1  /* it is cancelled */
};

/* Takes no more operations (ESHUTDOWN, also for those that continuations submit), and ends the library's threads when all
 * operations have ended and their continuations have returned. 0: all ended by themselves. ETIMEDOUT: some were cancelled,
 * and have ended. EBUSY: some cannot be interrupted and go on; their memory must stay. EDEADLK: called by a continuation. */
int atta_shutdown(int how, int timeout_ms);

/* An operation that was submitted. */
typedef uint64_t atta_op;

/* The operation that this thread submitted last; 0 if that was refused, or there is none. It can be asked for as long as the
 * thread has not submitted another one, whether or not the operation has ended: nothing can come between. It is valid until
 * atta_wait or atta_release has given it back. A program that never calls this pays nothing for it. */
atta_op atta_last(void);

/* Waits until an operation has ended and its continuation has returned, at most timeout_ms (negative: for ever); then op is
 * given back. *status, unless status is NULL: 0 or the error of the operation. ETIMEDOUT: it has not ended, and op stays
 * valid. EINVAL: op was given back. EDEADLK: called by its own continuation. An operation without a continuation that
 * nobody has begun with is carried out by the waiting thread. A continuation that waits keeps one of the
 * continuation_threads from others; if all of them wait for what needs another continuation, none of that ends. */
int atta_wait(atta_op op, int timeout_ms, int *status);

/* Waits until no operation is under way, also of other threads and of continuations. ETIMEDOUT. EDEADLK: called by a
 * continuation, whose operation is under way. */
int atta_wait_all(int timeout_ms);

/* Ends an operation with ECANCELED if it has not ended yet. It may still end in any other way. Its memory must stay until
 * its continuation was called, or until atta_wait has returned 0. op stays valid. A pxfs_close that ends so before it has begun
 * leaves the descriptor open. */
int atta_cancel(atta_op op);

/* Gives op back; the operation goes on. */
int atta_release(atta_op op);

/* Operations that this thread submits from now on end with ETIMEDOUT after timeout_ms (negative: never). What cannot be
 * interrupted takes longer, as with atta_cancel. */
int atta_deadline(int timeout_ms);

/* Fills counts: zeros where the library does not run. */
int atta_counts(struct atta_counts *counts);

/* Writes what a status or an errno means to text, cut to size bytes with the NUL; gives text, or "" if there is no room. */
const char *atta_error(int error, char *text, size_t size);

/* The version of the library, as in "0.1.0". */
const char *atta_version(void);

#ifdef __cplusplus
}
#endif

#endif
