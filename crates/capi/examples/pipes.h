/* pipes.h: ranks of one machine, connected by pipes, for atta_status.h. Processes that are forked, or threads. An
 * example of a table of function pointers: 40 lines for anything that passes bytes. Include it in one file; link
 * with libatta. */
#ifndef PIPES_H
#define PIPES_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "atta_status.h"

/* A pipe from each rank to each other one. */
struct pipes {
    uint32_t ranks;
    int (*ends)[2]; /* ranks * ranks: read and write */
};

/* One rank. */
struct pipes_rank {
    const struct pipes *pipes;
    uint32_t rank;
};

/* Makes all pipes, before ranks are forked. 0, or an errno. */
static inline int pipes_open(struct pipes *pipes, uint32_t ranks)
{
    pipes->ranks = ranks;
    pipes->ends = calloc((size_t)ranks * ranks, sizeof *pipes->ends);
    if (pipes->ends == NULL)
        return ENOMEM;
    for (size_t at = 0; at < (size_t)ranks * ranks; at++)
        if (pipe(pipes->ends[at]) != 0)
            return errno;
    return 0;
}

static inline void pipes_close(struct pipes *pipes)
{
    for (size_t at = 0; at < (size_t)pipes->ranks * pipes->ranks; at++) {
        close(pipes->ends[at][0]);
        close(pipes->ends[at][1]);
    }
    free(pipes->ends);
}

/* Closes what a forked rank does not use: then a rank that has ended is seen as the end of its pipes. */
static inline void pipes_keep(const struct pipes_rank *own)
{
    for (uint32_t from = 0; from < own->pipes->ranks; from++) {
        for (uint32_t to = 0; to < own->pipes->ranks; to++) {
            int *ends = own->pipes->ends[(size_t)from * own->pipes->ranks + to];
            if (to != own->rank)
                close(ends[0]);
            if (from != own->rank)
                close(ends[1]);
        }
    }
}

/* A program that writes to a rank that has ended gets SIGPIPE, unless it ignores that. */
static inline int pipes_send(void *data, uint32_t to, const void *bytes, size_t count)
{
    const struct pipes_rank *own = data;
    int fd = own->pipes->ends[(size_t)own->rank * own->pipes->ranks + to][1];
    const char *from = bytes;
    while (count > 0) {
        ssize_t written = write(fd, from, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return errno;
        from += written;
        count -= (size_t)written;
    }
    return 0;
}

static inline int pipes_receive(void *data, uint32_t from, void *bytes, size_t count)
{
    const struct pipes_rank *own = data;
    int fd = own->pipes->ends[(size_t)from * own->pipes->ranks + own->rank][0];
    char *to = bytes;
    while (count > 0) {
        ssize_t got = read(fd, to, count);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? errno : ECONNRESET;
        to += got;
        count -= (size_t)got;
    }
    return 0;
}

/* The table of a rank. */
static inline struct atta_collective pipes_collective(struct pipes_rank *own)
{
    return (struct atta_collective){
        .size = sizeof(struct atta_collective),
        .data = own,
        .rank = own->rank,
        .ranks = own->pipes->ranks,
        .send = pipes_send,
        .receive = pipes_receive,
    };
}

#endif
