/* A program that is wrong: it frees the memory of a result before the operation has ended. Only a library that is itself built
 * with AddressSanitizer can be caught storing there: no system call does. */
#include <unistd.h>

#include "check.h"

int main(void)
{
    static char buf[1];
    ssize_t *bytes = malloc(sizeof *bytes);
    int ends[2], status = 0;
    CHECK(bytes != NULL && pipe(ends) == 0);
    CHECK(pxfs_read(ends[0], buf, 1, bytes, NULL, NULL) == 0);
    free(bytes);
    CHECK(write(ends[1], "x", 1) == 1 && atta_wait(atta_last(), -1, &status) == 0);
    return status;
}
