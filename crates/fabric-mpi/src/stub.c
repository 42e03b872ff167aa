/* The plug-in as it is built without an MPI: it only says so. */
#include "atta_mpi.h"

const struct atta_mpi_table *atta_mpi_shim(void) {
  static const struct atta_mpi_table table = {
      .version = ATTA_MPI_VERSION, .bytes = sizeof(struct atta_mpi_table), .built = 0};
  return &table;
}
