/* What the test programs share: a check that tells where it failed, and operations as if they were calls. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "atta.h"
#include "pxfs.h"

#define CHECK(what)                                                                                    \
    do {                                                                                               \
        if (!(what)) {                                                                                 \
            fprintf(stderr, "%s:%d: %s (errno %d: %s)\n", __FILE__, __LINE__, #what, errno,            \
                    strerror(errno));                                                                  \
            _Exit(1);                                                                                  \
        }                                                                                              \
    } while (0)

/* Waits for what was submitted last, and gives its status; -1: it was refused. */
static inline int ended(int submitted)
{
    int status = -1;
    if (submitted == 0)
        CHECK(atta_wait(atta_last(), -1, &status) == 0);
    return status;
}

#endif
