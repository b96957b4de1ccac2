import type { ProjectFiles } from './project-files.ts'
import { PROJECT_TOOLS } from './tools.ts'

/** What `init` found about one kind of project. */
export interface Found {
  readonly name: string
  /** Command lines that install dependencies and check the work. None of them contains text of the project. */
  readonly commands: readonly string[]
  /** Hosts from which dependencies are installed. */
  readonly registries: readonly string[]
}

export interface ProjectTool {
  readonly name: string
  /** One of these files shows that the project uses the tool. `*` stands for any part of the name. */
  readonly files: readonly string[]
  look(project: ProjectFiles): Promise<Omit<Found, 'name'>>
}

export async function findKinds(project: ProjectFiles): Promise<Found[]> {
  const used = PROJECT_TOOLS.filter(({ files }) => files.some((file) => hasFile(project, file)))
  return Promise.all(used.map(async ({ name, look }) => ({ name, ...(await look(project)) })))
}

function hasFile({ names }: ProjectFiles, pattern: string): boolean {
  if (!pattern.startsWith('*')) return names.includes(pattern)
  return names.some((name) => name.endsWith(pattern.slice(1)))
}
