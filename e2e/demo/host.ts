import type { Handlers } from '../../src/shared/api.ts'

type HostHandlers = Pick<Handlers, 'host.info' | 'host.doctor' | 'host.directories' | 'agent.cards'>

/** A computer with a sandbox, an engine and no virtual machine. */
export function hostDemo(dataDir: string): HostHandlers {
  return {
    'host.info': async () => ({
      version: '0.1.0',
      data_dir: dataDir,
      platform: 'linux',
      home: '/home/ada',
      host: 'browser',
    }),
    'host.doctor': async () => ({
      platform: 'linux',
      kernel: '6.1.0-28-amd64',
      data_dir: '/home/ada/.local/share/orangery',
      levels: [
        {
          level: 0,
          name: 'bare-cli',
          available: true,
          driver: null,
          workspace: 'kernel-overlay',
          checks: [],
        },
        {
          level: 1,
          name: 'os-sandboxed',
          available: true,
          driver: 'bubblewrap 0.8.0',
          workspace: 'kernel-overlay',
          checks: [
            { name: 'bubblewrap', ok: true, detail: '0.8.0', fix: null },
            { name: 'user namespaces', ok: true, detail: 'allowed', fix: null },
            { name: 'overlay', ok: true, detail: 'the kernel mounts them unprivileged', fix: null },
          ],
        },
        {
          level: 2,
          name: 'container',
          available: true,
          driver: 'podman 4.3.1',
          workspace: 'volume',
          checks: [{ name: 'podman', ok: true, detail: '4.3.1, rootless', fix: null }],
        },
        {
          level: 3,
          name: 'vm',
          available: false,
          driver: null,
          workspace: null,
          checks: [
            {
              name: 'runtime',
              ok: false,
              detail: 'no runtime that gives a virtual machine',
              fix: 'apt install qemu-system-x86',
            },
          ],
        },
      ],
      limits: {
        memory: 'cgroup v2',
        cpus: 'cgroup v2',
        pids: 'cgroup v2',
        disk: 'watched',
        time: 'supervisor',
      },
    }),
    'host.directories': async ({ path }) => ({
      path,
      exists: true,
      entries: path === '/home/ada/' ? ['importer', 'shop', 'site', 'traps'] : ['src', 'test'],
    }),
    'agent.cards': async () =>
      [
        ['command', 'Command'],
        ['claude', 'Claude Code'],
        ['codex', 'Codex'],
        ['opencode', 'OpenCode'],
        ['gemini', 'Gemini CLI'],
      ].map(([id = '', name = '']) => ({
        id,
        name,
        description: '',
        command: [],
        protocol: 'terminal',
        sandboxLevel: 1,
        sandboxRequirements: { hosts: [], env: [], read: [], home: 'fresh' },
      })),
  }
}
