/* What the driver's stand-in has been asked to do so far: `kiln_stand_in` of its libcuda.so.1. */
#ifndef KILN_STAND_IN_COUNTS_H
#define KILN_STAND_IN_COUNTS_H

struct kiln_stand_in_counts {
  long launches = 0;      /* of single kernels */
  long graphs = 0;        /* made ready */
  long replays = 0;       /* launches of graphs */
  long changed_nodes = 0; /* kernels of graphs that were given other arguments */
  long copies_in = 0;     /* from the host */
  long empty_copies = 0;  /* to the host, of memory that nobody has written */
  long events = 0;        /* recorded */
  long kernels_run = 0;   /* that have run by now */
};

#endif
