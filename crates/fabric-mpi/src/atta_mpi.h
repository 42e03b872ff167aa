/*
 * The table of functions that the plug-in libatta_mpi.so gives to the program. The program's side of it is abi.rs of
 * atta-mpi-loader; the two change together, and ATTA_MPI_VERSION with them.
 *
 * The first three fields keep their place and meaning in every version.
 */
#ifndef ATTA_MPI_H
#define ATTA_MPI_H

#include <stdint.h>

#define ATTA_MPI_VERSION 3

/* The code of a message whose other rank has died. */
#define ATTA_MPI_LOST (-4)

/*
 * Functions that return int32_t give 0, an error code of MPI (positive), or one of the shim (negative); error_text
 * knows both. All but library_version are called by one thread alone, the one that called begin.
 */
struct atta_mpi_table {
  uint32_t version;
  uint32_t bytes; /* of this struct */
  uint32_t built; /* 0: built without an MPI, and all functions are null */
  uint32_t reserved;

  /* Name and version of the MPI library. May be called before begin. */
  int32_t (*library_version)(char *text, uint32_t capacity);

  /* Enters MPI, once in a process. Gives rank, number of ranks, and number of ranks on this host. On an error `at`
     names the call that failed. */
  int32_t (*begin)(uint32_t *rank, uint32_t *size, uint32_t *neighbours, char *at, uint32_t at_capacity);

  /* The ranks on this host, ascending: as many as begin said. */
  int32_t (*neighbours)(uint32_t *ranks, uint32_t count);

  /* Begins to send. The message must stay where it is until `sent` gives its ticket back with code 0; after an error,
     of this call too, for as long as the process lives. At most INT32_MAX bytes. */
  int32_t (*send)(uint32_t to, const void *message, uint64_t bytes, uint64_t ticket);

  /* Moves messages on, and gives tickets of some sends that have ended, each with a code: 0, or why it failed. */
  int32_t (*sent)(uint64_t *tickets, int32_t *codes, uint32_t capacity, uint32_t *count);

  /* Looks for a message that has come, and matches it. Each matched message must be taken before the next call. */
  int32_t (*match)(int32_t *found, uint32_t *from, uint64_t *bytes);

  /* Begins to receive the matched message into a place of its length. The place must stay until `taken` gives its ticket
     back with code 0; after an error, of this call too, for as long as the process lives. Several messages may be
     received at once. */
  int32_t (*take)(void *place, uint64_t bytes, uint64_t ticket);

  /* Gives tickets of some receives that have ended, each with a code: 0, or why it failed. */
  int32_t (*taken)(uint64_t *tickets, int32_t *codes, uint32_t capacity, uint32_t *count);

  /* Whether the other ranks go on when one dies: this MPI can, and was launched so. After begin. */
  int32_t (*survives)(void);

  /* The ranks that have died, in no order, at most `capacity` of them; `count` is how many there are. What a rank sent before
     it died may still come, or be lost. A code of ATTA_MPI_LOST for a message says that the other rank is dead. */
  int32_t (*lost)(uint32_t *ranks, uint32_t capacity, uint32_t *count);

  /* Leaves MPI, once in a process. Not after a rank has died: MPI may wait for it. */
  int32_t (*leave)(void);

  /* Ends all ranks. */
  void (*abort)(int32_t exit_code);

  /* What a code means. */
  void (*error_text)(int32_t code, char *text, uint32_t capacity);
};

/* The plug-in's one symbol that is meant for the program is atta_mpi_table, in lib.rs; it returns this. */
const struct atta_mpi_table *atta_mpi_shim(void);

#endif
