/*
 * The calls of MPI that the program makes, behind functions that do not show MPI's types: these differ from one MPI to
 * the next. Only calls of MPI 3, and of its extension for failures (ULFM) where that is there. It decides nothing: who sends
 * what and when, and what an error means, is the program's.
 *
 * One thread calls all of it (MPI_THREAD_FUNNELED), so the state below needs no lock.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L /* setenv */
#endif
#include <mpi.h>
#if defined(OPEN_MPI)
/* Tells which extensions there are. */
#include <mpi-ext.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "atta_mpi.h"

enum {
  ERROR_MEMORY = -1,
  ERROR_THREADS = -2,
  ERROR_BEGUN = -3,
  TAG = 1,
  /* Requests that one call of `sent` or `taken` looks at: it must stay cheap however many wait. */
  WINDOW = 256
};

/* Operations that MPI has begun, in no order. Slot i of both arrays is one. */
struct operations {
  MPI_Request *requests;
  uint64_t *tickets;
  int count, capacity;
  int next; /* where the next window begins */
};

static struct {
  MPI_Comm comm; /* duplicated: no message of anybody else is on it */
  MPI_Comm host;
  int begun;
  struct operations sends, receives;
  MPI_Message matched;
} state;

static void copy_text(const char *from, char *to, uint32_t capacity) {
  if (capacity == 0) return;
  strncpy(to, from, capacity - 1);
  to[capacity - 1] = '\0';
}

static int32_t library_version(char *text, uint32_t capacity) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length, code = MPI_Get_library_version(version, &length);
  copy_text(version, text, capacity);
  return code;
}

/* A failed call of begin: its name and its code. */
#define TRY(call)                        \
  do {                                   \
    int code_ = MPI_##call;              \
    if (code_ != MPI_SUCCESS) {          \
      copy_text("MPI_" #call, at, room); \
      at[strcspn(at, "(")] = '\0';       \
      return code_;                      \
    }                                    \
  } while (0)

static int32_t begin(uint32_t *rank, uint32_t *size, uint32_t *neighbours, char *at, uint32_t room) {
  int initialized, provided, own, all, near;
  copy_text("MPI_Init_thread", at, room);
  MPI_Initialized(&initialized);
  if (initialized || state.begun) return ERROR_BEGUN;
  state.begun = 1;
  /* Where ranks survive others, MPI_Finalize must not wait for all: some may be dead. */
  if (getenv("OMPI_MCA_mpi_ft_enable") != NULL) setenv("OMPI_MCA_async_mpi_finalize", "1", 0);
  TRY(Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided));
  if (provided < MPI_THREAD_FUNNELED) return ERROR_THREADS;
  TRY(Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  TRY(Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  /* The new communicators inherit the error handler. */
  TRY(Comm_dup(MPI_COMM_WORLD, &state.comm));
  TRY(Comm_split_type(state.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &state.host));
  TRY(Comm_rank(state.comm, &own));
  TRY(Comm_size(state.comm, &all));
  TRY(Comm_size(state.host, &near));
  *rank = (uint32_t)own;
  *size = (uint32_t)all;
  *neighbours = (uint32_t)near;
  return 0;
}

/* With equal keys MPI_Comm_split_type keeps the order of ranks, so these ascend. */
static int32_t neighbours(uint32_t *ranks, uint32_t count) {
  MPI_Group world, host;
  int code, *near = malloc(count * sizeof *near), *all = malloc(count * sizeof *all);
  code = near == NULL || all == NULL ? ERROR_MEMORY : MPI_Comm_group(state.comm, &world);
  if (code == MPI_SUCCESS) {
    code = MPI_Comm_group(state.host, &host);
    if (code == MPI_SUCCESS) {
      for (uint32_t i = 0; i < count; i++) near[i] = (int)i;
      code = MPI_Group_translate_ranks(host, (int)count, near, world, all);
      for (uint32_t i = 0; code == MPI_SUCCESS && i < count; i++) ranks[i] = (uint32_t)all[i];
      MPI_Group_free(&host);
    }
    MPI_Group_free(&world);
  }
  free(near);
  free(all);
  return code;
}

#if defined(OMPI_HAVE_MPI_EXT_FTMPI)
/* Whether the launcher lets the others go on (mpirun --with-ft ulfm): Open MPI's variable says so, however it was
   set. */
static int32_t survives(void) {
  int provided, index, count, enabled = 0;
  char value[64] = "";
  MPI_T_cvar_handle handle;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return 0;
  if (MPI_T_cvar_get_index("mpi_ft_enable", &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) == MPI_SUCCESS) {
    /* It is a truth value, of one byte. */
    if (count == 1 && MPI_T_cvar_read(handle, value) == MPI_SUCCESS) enabled = value[0] != 0;
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return enabled;
}

static int class_of(int code) {
  int class;
  return MPI_Error_class(code, &class) == MPI_SUCCESS ? class : code;
}

/* Whether the other rank of a message is dead. */
static int is_lost(int code) { return code != MPI_SUCCESS && class_of(code) == MPIX_ERR_PROC_FAILED; }

/* Whether a probe of any rank says that some rank is dead. */
static int is_some_lost(int code) {
  return is_lost(code) || (code != MPI_SUCCESS && class_of(code) == MPIX_ERR_PROC_FAILED_PENDING);
}

/* Failures are acknowledged each time: else a probe of any rank fails as long as there is one that is not. */
static int32_t lost(uint32_t *ranks, uint32_t capacity, uint32_t *count) {
  MPI_Group failed, world;
  int all = 0, code = MPIX_Comm_failure_ack(state.comm);
  *count = 0;
  if (code == MPI_SUCCESS) code = MPIX_Comm_failure_get_acked(state.comm, &failed);
  if (code != MPI_SUCCESS) return code;
  code = MPI_Group_size(failed, &all);
  if (code == MPI_SUCCESS && all > 0) {
    code = MPI_Comm_group(state.comm, &world);
    for (int i = 0; code == MPI_SUCCESS && i < all && (uint32_t)i < capacity; i++) {
      int rank;
      code = MPI_Group_translate_ranks(failed, 1, &i, world, &rank);
      ranks[i] = (uint32_t)rank;
    }
    MPI_Group_free(&world);
  }
  MPI_Group_free(&failed);
  *count = (uint32_t)all;
  return code;
}
#else
static int32_t survives(void) { return 0; }

static int is_lost(int code) {
  (void)code;
  return 0;
}

static int is_some_lost(int code) { return is_lost(code); }

static int32_t lost(uint32_t *ranks, uint32_t capacity, uint32_t *count) {
  (void)ranks;
  (void)capacity;
  *count = 0;
  return 0;
}
#endif

/* A code of MPI, or ATTA_MPI_LOST. */
static int32_t code_or_lost(int code) { return is_lost(code) ? ATTA_MPI_LOST : code; }

/* Makes room for one more operation. */
static int32_t reserve(struct operations *all) {
  if (all->count < all->capacity) return 0;
  int capacity = all->capacity ? 2 * all->capacity : WINDOW;
  MPI_Request *requests = realloc(all->requests, (size_t)capacity * sizeof *requests);
  if (requests == NULL) return ERROR_MEMORY;
  all->requests = requests;
  uint64_t *tickets = realloc(all->tickets, (size_t)capacity * sizeof *tickets);
  if (tickets == NULL) return ERROR_MEMORY;
  all->tickets = tickets;
  all->capacity = capacity;
  return 0;
}

/* One window at a time, in turn: with n operations begun a call costs the window, not n. */
static int32_t finished(struct operations *all, uint64_t *tickets, int32_t *codes, uint32_t capacity,
                        uint32_t *count) {
  int done = 0, places[WINDOW];
  MPI_Status statuses[WINDOW];
  *count = 0;
  if (all->next >= all->count) all->next = 0;
  int window = all->count - all->next;
  if (window > WINDOW) window = WINDOW;
  if ((uint32_t)window > capacity) window = (int)capacity;
  if (window == 0) return 0;

  int first = all->next;
  int code = MPI_Testsome(window, all->requests + first, &done, places, statuses);
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return code;
  if (done == MPI_UNDEFINED) done = 0;
  for (int i = 0; i < done; i++) {
    int slot = first + places[i];
    tickets[i] = all->tickets[slot];
    /* MPI sets the codes of statuses only if it says so. */
    codes[i] = code == MPI_ERR_IN_STATUS ? code_or_lost(statuses[i].MPI_ERROR) : 0;
    /* Some MPIs keep a request that failed, which may still be active. It is forgotten and not freed: MPI_Request_free
       would neither cancel it nor wait for it. */
    all->requests[slot] = MPI_REQUEST_NULL;
  }
  /* From the end, so that what moves into a gap is none itself. */
  for (int slot = first + window - 1; done > 0 && slot >= first; slot--) {
    if (all->requests[slot] != MPI_REQUEST_NULL) continue;
    all->count--;
    all->requests[slot] = all->requests[all->count];
    all->tickets[slot] = all->tickets[all->count];
  }
  all->next = first + window - done;
  *count = (uint32_t)done;
  return 0;
}

static int32_t send_message(uint32_t to, const void *message, uint64_t bytes, uint64_t ticket) {
  struct operations *sends = &state.sends;
  int32_t code = reserve(sends);
  if (code != 0) return code;
  code = MPI_Isend(message, (int)bytes, MPI_BYTE, (int)to, TAG, state.comm, &sends->requests[sends->count]);
  if (code != MPI_SUCCESS) return code_or_lost(code);
  sends->tickets[sends->count++] = ticket;
  return 0;
}

static int32_t sent(uint64_t *tickets, int32_t *codes, uint32_t capacity, uint32_t *count) {
  return finished(&state.sends, tickets, codes, capacity, count);
}

/* Improbe and not Iprobe: a message of a rank that died after it is consumed, too, and does not come up for ever.
   Twice, since MPICH looks first and moves messages on afterwards: what a call has brought in only the next one tells. */
static int32_t match(int32_t *found, uint32_t *from, uint64_t *bytes) {
  MPI_Status status;
  int flag = 0, count, code = MPI_SUCCESS;
  for (int look = 0; look < 2 && code == MPI_SUCCESS && !flag; look++)
    code = MPI_Improbe(MPI_ANY_SOURCE, TAG, state.comm, &flag, &state.matched, &status);
  *found = 0;
  /* A rank has died. `lost` returns which one, and acknowledges it. */
  if (is_some_lost(code)) return 0;
  if (code != MPI_SUCCESS || !flag) return code;
  code = MPI_Get_count(&status, MPI_BYTE, &count);
  *found = 1;
  *from = (uint32_t)status.MPI_SOURCE;
  *bytes = (uint64_t)count;
  return code;
}

/* Imrecv and not Mrecv: a large message comes only as fast as its sender calls MPI, and this rank has more to do. */
static int32_t take(void *place, uint64_t bytes, uint64_t ticket) {
  struct operations *receives = &state.receives;
  int32_t code = reserve(receives);
  if (code != 0) return code;
  code = MPI_Imrecv(place, (int)bytes, MPI_BYTE, &state.matched, &receives->requests[receives->count]);
  if (code != MPI_SUCCESS) return code_or_lost(code);
  receives->tickets[receives->count++] = ticket;
  return 0;
}

static int32_t taken(uint64_t *tickets, int32_t *codes, uint32_t capacity, uint32_t *count) {
  return finished(&state.receives, tickets, codes, capacity, count);
}

static int32_t leave(void) {
  int code = MPI_Comm_free(&state.host);
  int other = MPI_Comm_free(&state.comm);
  int last = MPI_Finalize();
  if (code != MPI_SUCCESS) return code;
  return other != MPI_SUCCESS ? other : last;
}

static void abort_all(int32_t exit_code) { MPI_Abort(MPI_COMM_WORLD, exit_code); }

static void error_text(int32_t code, char *text, uint32_t capacity) {
  char said[MPI_MAX_ERROR_STRING] = "";
  int length;
  switch (code) {
    case ERROR_MEMORY: copy_text("out of memory", text, capacity); return;
    case ERROR_THREADS: copy_text("this MPI does not allow threads", text, capacity); return;
    case ERROR_BEGUN: copy_text("MPI was begun before in this process", text, capacity); return;
    case ATTA_MPI_LOST: copy_text("the other rank has died", text, capacity); return;
  }
  if (MPI_Error_string(code, said, &length) != MPI_SUCCESS) copy_text("unknown error", said, sizeof said);
  copy_text(said, text, capacity);
}

const struct atta_mpi_table *atta_mpi_shim(void) {
  static const struct atta_mpi_table table = {
      .version = ATTA_MPI_VERSION,
      .bytes = sizeof(struct atta_mpi_table),
      .built = 1,
      .library_version = library_version,
      .begin = begin,
      .neighbours = neighbours,
      .send = send_message,
      .sent = sent,
      .match = match,
      .take = take,
      .taken = taken,
      .survives = survives,
      .lost = lost,
      .leave = leave,
      .abort = abort_all,
      .error_text = error_text,
  };
  return &table;
}
