import type { Found } from './found.ts'
import type { ProjectFiles } from './project-files.ts'
import { PROJECT_TOOLS } from './tools.ts'

export async function findKinds(project: ProjectFiles): Promise<Found[]> {
  const used = PROJECT_TOOLS.filter(({ files }) => files.some((file) => hasFile(project, file)))
  return Promise.all(used.map(async ({ name, look }) => ({ name, ...(await look(project)) })))
}

function hasFile({ names }: ProjectFiles, pattern: string): boolean {
  if (!pattern.startsWith('*')) return names.includes(pattern)
  return names.some((name) => name.endsWith(pattern.slice(1)))
}
