/* atta_status_mpi.h: ranks of an MPI communicator for atta_status.h. Header only: it calls the program's own MPI, so
 * that libatta needs none. For C and C++.
 *
 *     struct atta_mpi mpi;
 *     struct atta_collective ranks;
 *     atta_mpi_open(&mpi, comm, &ranks);            all ranks of comm
 *     atta_status_join(mounts, &ranks, NULL, &status);
 *     ...
 *     atta_free(status);
 *     atta_mpi_close(&mpi);                         all ranks of comm, before MPI_Finalize
 *
 * The communicator is duplicated, so that messages of queries never meet those of the program. Errors of MPI become
 * EIO there; those of atta_mpi_open itself are handled as comm says. Two threads may ask at the same time only with
 * MPI_THREAD_MULTIPLE. */
#ifndef ATTA_STATUS_MPI_H
#define ATTA_STATUS_MPI_H

#include <errno.h>
#include <mpi.h>

#include "atta_status.h"

/* It must stay where it is until the status was given back. */
struct atta_mpi {
    MPI_Comm comm;
};

/* Bytes of one call: counts of MPI are int. */
#define ATTA_MPI_BYTES_MAX ((size_t)1 << 30)

static inline int atta_mpi_errno(int returned)
{
    return returned == MPI_SUCCESS ? 0 : EIO;
}

static inline int atta_mpi_send(void *data, uint32_t to, const void *bytes, size_t count)
{
    const struct atta_mpi *mpi = (const struct atta_mpi *)data;
    const char *from = (const char *)bytes;
    int returned = MPI_SUCCESS;
    while (count > 0 && returned == MPI_SUCCESS) {
        size_t part = count < ATTA_MPI_BYTES_MAX ? count : ATTA_MPI_BYTES_MAX;
        returned = MPI_Send(from, (int)part, MPI_BYTE, (int)to, 0, mpi->comm);
        from += part;
        count -= part;
    }
    return atta_mpi_errno(returned);
}

static inline int atta_mpi_receive(void *data, uint32_t from, void *bytes, size_t count)
{
    const struct atta_mpi *mpi = (const struct atta_mpi *)data;
    char *to = (char *)bytes;
    int returned = MPI_SUCCESS;
    while (count > 0 && returned == MPI_SUCCESS) {
        size_t part = count < ATTA_MPI_BYTES_MAX ? count : ATTA_MPI_BYTES_MAX;
        returned = MPI_Recv(to, (int)part, MPI_BYTE, (int)from, 0, mpi->comm, MPI_STATUS_IGNORE);
        to += part;
        count -= part;
    }
    return atta_mpi_errno(returned);
}

static inline int atta_mpi_broadcast(void *data, void *bytes, size_t count)
{
    const struct atta_mpi *mpi = (const struct atta_mpi *)data;
    char *at = (char *)bytes;
    int returned = MPI_SUCCESS;
    while (count > 0 && returned == MPI_SUCCESS) {
        size_t part = count < ATTA_MPI_BYTES_MAX ? count : ATTA_MPI_BYTES_MAX;
        returned = MPI_Bcast(at, (int)part, MPI_BYTE, 0, mpi->comm);
        at += part;
        count -= part;
    }
    return atta_mpi_errno(returned);
}

/* Duplicates a communicator and fills the table in. All ranks of comm call it. Returns 0, or -1 with errno: EFAULT
 * (NULL), EINVAL (MPI is not initialized or was finalized, comm is MPI_COMM_NULL or has two groups), EIO (an error
 * of MPI). */
static inline int atta_mpi_open(struct atta_mpi *mpi, MPI_Comm comm, struct atta_collective *collective)
{
    int is_initialized = 0, is_finalized = 0, has_two_groups = 0, rank = 0, ranks = 0;
    const struct atta_collective none = {0, 0, 0, 0, 0, 0, 0, 0};
    if (mpi == NULL || collective == NULL) {
        errno = EFAULT;
        return -1;
    }
    mpi->comm = MPI_COMM_NULL;
    *collective = none;
    errno = EINVAL;
    if (MPI_Initialized(&is_initialized) != MPI_SUCCESS || !is_initialized)
        return -1;
    if (MPI_Finalized(&is_finalized) != MPI_SUCCESS || is_finalized || comm == MPI_COMM_NULL)
        return -1;
    if (MPI_Comm_test_inter(comm, &has_two_groups) != MPI_SUCCESS || has_two_groups)
        return -1;
    errno = EIO;
    if (MPI_Comm_dup(comm, &mpi->comm) != MPI_SUCCESS) {
        mpi->comm = MPI_COMM_NULL;
        return -1;
    }
    if (MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN) != MPI_SUCCESS ||
        MPI_Comm_rank(mpi->comm, &rank) != MPI_SUCCESS || MPI_Comm_size(mpi->comm, &ranks) != MPI_SUCCESS) {
        MPI_Comm_free(&mpi->comm);
        errno = EIO;
        return -1;
    }
    collective->size = sizeof *collective;
    collective->data = mpi;
    collective->rank = (uint32_t)rank;
    collective->ranks = (uint32_t)ranks;
    collective->send = atta_mpi_send;
    collective->receive = atta_mpi_receive;
    collective->broadcast = atta_mpi_broadcast;
    errno = 0;
    return 0;
}

/* Gives the duplicate back. All ranks of it call this, after atta_free of the status. Returns 0, or -1 with errno:
 * EFAULT (NULL), EINVAL (it is not open), EIO. */
static inline int atta_mpi_close(struct atta_mpi *mpi)
{
    if (mpi == NULL || mpi->comm == MPI_COMM_NULL) {
        errno = mpi == NULL ? EFAULT : EINVAL;
        return -1;
    }
    if (MPI_Comm_free(&mpi->comm) != MPI_SUCCESS) {
        errno = EIO;
        return -1;
    }
    return 0;
}

#endif
