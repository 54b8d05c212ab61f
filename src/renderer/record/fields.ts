const words: Readonly<Record<string, string>> = {
  access_mode: 'Files',
  level: 'Level',
  boundary: 'Boundary',
  changeset: 'Workspace',
  driver: 'Driver',
  tools_allowed: 'Tools allowed',
  tools_denied: 'Tools denied',
  max_turns: 'Turns',
  max_commands: 'Commands',
  outputs: 'Network',
  resources: 'Resources',
  platform: 'Platform',
  software: 'Software',
  phase: 'Phase',
  working_dir: 'Working folder',
  roots: 'Folders',
  root_modes: 'Mode of each folder',
  hide: 'Hidden',
  on_limit: 'At a limit',
  'limits.cpus': 'CPUs',
  'limits.memory_mb': 'Memory',
  'limits.pids': 'Processes',
  'limits.disk_mb': 'Disk',
  'limits.timeout_s': 'Time',
}

/** A violation is a line of its own in the comparison, without a setting it belongs to. */
export const isOwnLine = (field: string): boolean => field.startsWith('violation: ')

/** A setting's name as a person reads it; one the window does not know keeps its own. */
export const fieldWords = (field: string): string => words[field] ?? field.replace(/^declared: /, '')
