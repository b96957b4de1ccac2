import type { RoundRequest } from './plan.ts'

/** Rounds that found a defect. `--found` repeats them. */
export const FOUND: readonly RoundRequest[] = [
  // A full disk while runs begin on a folder.
  { backend: 'sqlite', seed: 2000, runs: 10 },
  // Another driver takes over a run that was resumed.
  { backend: 'two-replicas', seed: 2005, runs: 10 },
  // A runner is killed while its sandbox starts.
  { backend: 'postgres', seed: 3013, runs: 10 },
  // A connection breaks during the identity check of a pod.
  { backend: 'two-replicas', seed: 3017, runs: 10 },
  // A stopped service leaves folders of executors.
  { backend: 'postgres', seed: 4004, runs: 10 },
  // A process stands still between the commit of a run and the start of its driver.
  { backend: 'two-replicas', seed: 4005, runs: 10 },
  // The sandbox is killed after the last turn has ended and before the run has. Another defect, in 1 of 20 executions: a service
  // stops while it gives back the sandbox of a suspended run.
  { backend: 'two-replicas', seed: 3, runs: 10 },
  // The database refuses the read with which a local sandbox gets its network.
  { backend: 'postgres', seed: 20_007, runs: 10 },
  // A process is killed between the deletion of a claim and the release of its row.
  { backend: 'two-replicas', seed: 20_005, runs: 10 },
  // The launcher of a command is killed in its first milliseconds.
  { backend: 'sqlite', seed: 100_174, runs: 10 },
  // On a busy machine: a sandbox does not answer in time during the launch.
  { backend: 'two-replicas', seed: 100_270, runs: 10 },
  // The database refuses a read in the middle of a checkpoint's contents.
  { backend: 'two-replicas', seed: 100_294, runs: 10 },
  // A reader waits for events at a replica whose listener is silent.
  { backend: 'two-replicas', seed: 100_530, runs: 10 },
  // The service stops while its listener waits for a silent database.
  { backend: 'postgres', seed: 100_703, runs: 10 },
]
