import type { ProjectFiles } from './project-files.ts'

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
