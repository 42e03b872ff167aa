/*
 * A double of MPI for a test of shim.c: the types and calls that it uses, of one rank, without communication. The test in
 * shim.c beside this file decides what the calls give.
 */
#ifndef ATTA_DOUBLE_MPI_H
#define ATTA_DOUBLE_MPI_H

typedef int MPI_Comm, MPI_Datatype, MPI_Group, MPI_Info, MPI_Errhandler, MPI_Message, MPI_Request;
typedef struct {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
} MPI_Status;

enum {
  MPI_SUCCESS,
  MPI_ERR_IN_STATUS = 50,
  MPI_ERR_OTHER,
  MPI_UNDEFINED = -32766,
  MPI_ANY_SOURCE = -1,
  MPI_REQUEST_NULL = 0,
  MPI_INFO_NULL = 0,
  MPI_BYTE = 1,
  MPI_COMM_WORLD = 1,
  MPI_COMM_SELF = 2,
  MPI_COMM_TYPE_SHARED = 1,
  MPI_ERRORS_RETURN = 1,
  MPI_THREAD_FUNNELED = 1,
  MPI_MAX_LIBRARY_VERSION_STRING = 64,
  MPI_MAX_ERROR_STRING = 64
};

int MPI_Abort(MPI_Comm comm, int code);
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy);
int MPI_Comm_free(MPI_Comm *comm);
int MPI_Comm_group(MPI_Comm comm, MPI_Group *group);
int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler);
int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *part);
int MPI_Error_string(int code, char *text, int *length);
int MPI_Finalize(void);
int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count);
int MPI_Get_library_version(char *text, int *length);
int MPI_Group_free(MPI_Group *group);
int MPI_Group_translate_ranks(MPI_Group one, int count, const int *ranks, MPI_Group other, int *translated);
int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message, MPI_Status *status);
int MPI_Imrecv(void *place, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request);
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPI_Initialized(int *flag);
int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request);
int MPI_Request_free(MPI_Request *request);
int MPI_Testsome(int count, MPI_Request *requests, int *done, int *places, MPI_Status *statuses);

#endif
