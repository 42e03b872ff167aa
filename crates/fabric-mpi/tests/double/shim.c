/*
 * A test of shim.c over a double of MPI: which operations it gives back, and that it never frees a request, since
 * MPI_Request_free neither cancels an operation nor waits for it. Exit code 0 if all is as it must be.
 */
/* For shim.c: setenv. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>

#include "../../src/shim.c"

enum { OPERATIONS = 1000 };

/* What becomes of an operation at the next look. */
enum fate { GOES_ON, SUCCEEDS, FAILS, FAILS_AND_IS_KEPT };

static enum fate fates[OPERATIONS + 1]; /* by request */
static int begun;                       /* requests so far; each has the next number */
static int freed;

#define EXPECT(what)                                           \
  do {                                                         \
    if (!(what)) {                                             \
      printf("shim.c: line %d: not so: %s\n", __LINE__, #what); \
      exit(1);                                                 \
    }                                                          \
  } while (0)

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request) {
  (void)buffer, (void)count, (void)type, (void)to, (void)tag, (void)comm;
  *request = ++begun;
  return MPI_SUCCESS;
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status) {
  (void)source, (void)tag, (void)comm;
  *flag = 1, *message = 1, status->MPI_SOURCE = 3;
  return MPI_SUCCESS;
}

int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count) {
  (void)status, (void)type;
  *count = 5;
  return MPI_SUCCESS;
}

int MPI_Imrecv(void *place, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request) {
  (void)place, (void)count, (void)type;
  *message = 0, *request = ++begun;
  return MPI_SUCCESS;
}

/* As the standard has it: indices and statuses of what has ended, and codes in the statuses only if the call says so. */
int MPI_Testsome(int count, MPI_Request *requests, int *done, int *places, MPI_Status *statuses) {
  int active = 0, failed = 0;
  *done = 0;
  for (int i = 0; i < count; i++) {
    if (requests[i] == MPI_REQUEST_NULL) continue;
    active++;
    enum fate fate = fates[requests[i]];
    if (fate == GOES_ON) continue;
    statuses[*done].MPI_ERROR = fate == SUCCEEDS ? MPI_SUCCESS : MPI_ERR_OTHER;
    failed += fate != SUCCEEDS;
    places[(*done)++] = i;
    if (fate != FAILS_AND_IS_KEPT) requests[i] = MPI_REQUEST_NULL;
  }
  if (active == 0) *done = MPI_UNDEFINED;
  if (failed) return MPI_ERR_IN_STATUS;
  for (int i = 0; i < *done; i++) statuses[i].MPI_ERROR = 12345;
  return MPI_SUCCESS;
}

int MPI_Request_free(MPI_Request *request) {
  freed++;
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}

/* What this test does not come to. */
int MPI_Abort(MPI_Comm comm, int code) { return comm + code; }
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy) { return (*copy = comm) - comm; }
int MPI_Comm_free(MPI_Comm *comm) { return *comm = 0; }
int MPI_Comm_group(MPI_Comm comm, MPI_Group *group) { return (*group = comm) - comm; }
int MPI_Comm_rank(MPI_Comm comm, int *rank) { return (*rank = comm) - comm; }
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) { return (comm + handler) * 0; }
int MPI_Comm_size(MPI_Comm comm, int *size) { return (*size = comm) - comm; }
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *part) {
  return (*part = comm) * (type + key + info) * 0;
}
int MPI_Error_string(int code, char *text, int *length) { return (*length = text[0] = 0) * code; }
int MPI_Finalize(void) { return MPI_SUCCESS; }
int MPI_Get_library_version(char *text, int *length) { return *length = text[0] = 0; }
int MPI_Group_free(MPI_Group *group) { return *group = 0; }
int MPI_Group_translate_ranks(MPI_Group one, int count, const int *ranks, MPI_Group other, int *translated) {
  return (translated[0] = ranks[0]) * (one + count + other) * 0;
}
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
  (void)argc, (void)argv;
  return (*provided = required) * 0;
}
int MPI_Initialized(int *flag) { return *flag = 0; }

/* Tickets that `function` gives until it gives none; each may come once. The last code of each goes to `codes`. */
static int collect(int32_t (*function)(uint64_t *, int32_t *, uint32_t, uint32_t *), int32_t *codes, int *seen) {
  uint64_t tickets[100];
  int32_t some[100];
  uint32_t count;
  int all = 0;
  /* Windows are looked at in turn, so some looks give nothing. */
  for (int look = 0; look < 2 * OPERATIONS; look++) {
    EXPECT(function(tickets, some, 100, &count) == 0);
    for (uint32_t i = 0; i < count; i++) {
      EXPECT(tickets[i] < OPERATIONS && !seen[tickets[i]]);
      seen[tickets[i]] = 1;
      codes[tickets[i]] = some[i];
    }
    all += (int)count;
  }
  return all;
}

/* Many operations with all fates in turns: each that ends is given once, with its code, and the others stay. */
static void fates_of(const struct atta_mpi_table *table, int receives) {
  static int32_t codes[OPERATIONS];
  static int seen[OPERATIONS];
  char place[5];
  uint32_t from;
  uint64_t bytes;
  int32_t found;
  memset(seen, 0, sizeof seen);
  begun = 0;
  for (int i = 0; i < OPERATIONS; i++) {
    /* Request i + 1 has ticket i. */
    fates[i + 1] = (enum fate)(i % 4);
    if (receives) {
      EXPECT(table->match(&found, &from, &bytes) == 0 && found == 1 && from == 3 && bytes == 5);
      EXPECT(table->take(place, bytes, (uint64_t)i) == 0);
    } else {
      EXPECT(table->send(0, place, 5, (uint64_t)i) == 0);
    }
  }
  EXPECT(collect(receives ? table->taken : table->sent, codes, seen) == OPERATIONS * 3 / 4);
  for (int i = 0; i < OPERATIONS; i++) {
    EXPECT(seen[i] == (i % 4 != GOES_ON));
    if (seen[i]) EXPECT(codes[i] == (i % 4 == SUCCEEDS ? 0 : MPI_ERR_OTHER));
  }
  EXPECT(freed == 0);
  /* The rest ends later; what failed and was kept does not come up again. */
  for (int i = 0; i < OPERATIONS; i++) {
    if (fates[i + 1] == GOES_ON) fates[i + 1] = SUCCEEDS;
  }
  EXPECT(collect(receives ? table->taken : table->sent, codes, seen) == OPERATIONS / 4);
  EXPECT(freed == 0);
}

int main(void) {
  const struct atta_mpi_table *table = atta_mpi_shim();
  fates_of(table, 0);
  fates_of(table, 1);
  return 0;
}
