/* A program as a user of PXFS wrote it in 2013: it knows the original's prototypes alone, and does one thing after the other
 * by continuations: open, write, read back, fstat, rename, unlink. */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pxfs.h"

struct chain {
    char from[4096], to[4096];
    int fd;
    char out[8192], in[8192];
    ssize_t written, got;
    off_t offset;
    struct stat status;
    int steps;
    sem_t over;
};

static void need(int is_true, const char *what, int line)
{
    if (!is_true) {
        fprintf(stderr, "chain.c:%d: %s\n", line, what);
        _Exit(1);
    }
}
#define NEED(what) need(what, #what, __LINE__)

static int removed(void *cdat, int status)
{
    struct chain *chain = cdat;
    NEED(status == 0 && access(chain->to, F_OK) != 0);
    chain->steps++;
    sem_post(&chain->over);
    return 0;
}

static int closed(void *cdat, int status)
{
    struct chain *chain = cdat;
    NEED(status == 0);
    chain->steps++;
    NEED(pxfs_unlink(chain->to, removed, chain) == 0);
    return 0;
}

static int renamed(void *cdat, int status)
{
    struct chain *chain = cdat;
    NEED(status == 0 && access(chain->from, F_OK) != 0 && access(chain->to, F_OK) == 0);
    chain->steps++;
    NEED(pxfs_close(chain->fd, closed, chain) == 0);
    return 0;
}

static int looked(void *cdat, int status)
{
    struct chain *chain = cdat;
    NEED(status == 0);
    NEED(chain->status.st_size == (off_t)sizeof chain->out && (chain->status.st_mode & 07777) == 0640);
    chain->steps++;
    NEED(pxfs_rename(chain->from, chain->to, renamed, chain) == 0);
    return 0;
}

static int was_read(void *cdat, int status)
{
    struct chain *chain = cdat;
    NEED(status == 0 && chain->got == (ssize_t)sizeof chain->in);
    NEED(memcmp(chain->in, chain->out, sizeof chain->in) == 0);
    chain->steps++;
    NEED(pxfs_fstat(chain->fd, &chain->status, looked, chain) == 0);
    return 0;
}

static int sought(void *cdat, int status)
{
    struct chain *chain = cdat;
    NEED(status == 0 && chain->offset == 0);
    chain->steps++;
    NEED(pxfs_read(chain->fd, chain->in, sizeof chain->in, &chain->got, was_read, chain) == 0);
    return 0;
}

static int was_written(void *cdat, int status)
{
    struct chain *chain = cdat;
    NEED(status == 0 && chain->written == (ssize_t)sizeof chain->out);
    chain->steps++;
    NEED(pxfs_lseek(chain->fd, 0, SEEK_SET, &chain->offset, sought, chain) == 0);
    return 0;
}

static int opened(void *cdat, int status)
{
    struct chain *chain = cdat;
    NEED(status == 0 && chain->fd >= 0);
    chain->steps++;
    NEED(pxfs_write(chain->fd, chain->out, sizeof chain->out, &chain->written, was_written, chain) == 0);
    return 0;
}

int main(int argc, char **argv)
{
    enum { CHAINS = 32 };
    struct chain *chains = calloc(CHAINS, sizeof *chains);
    NEED(argc == 2 && chains != NULL);
    umask(0);
    for (int i = 0; i < CHAINS; i++) {
        struct chain *chain = &chains[i];
        snprintf(chain->from, sizeof chain->from, "%s/from-%d", argv[1], i);
        snprintf(chain->to, sizeof chain->to, "%s/to-%d", argv[1], i);
        memset(chain->out, 'a' + i % 26, sizeof chain->out);
        sem_init(&chain->over, 0, 0);
        NEED(pxfs_open(chain->from, O_RDWR | O_CREAT | O_EXCL, &chain->fd, opened, chain, 0640) == 0);
    }
    for (int i = 0; i < CHAINS; i++) {
        while (sem_wait(&chains[i].over) != 0) {
        }
        NEED(chains[i].steps == 8);
        sem_destroy(&chains[i].over);
    }
    /* The original had no end; a program that knows only its prototypes just returns. */
    return 0;
}
