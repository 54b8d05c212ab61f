import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createContext, useContext, useEffect, useState, useSyncExternalStore, type ReactNode } from 'react'
import type { Client } from '../../shared/api.ts'
import { OrangeryError } from '../../shared/errors.ts'
import type { Connection, ConnectionState } from './connection.ts'

const ConnectionContext = createContext<Connection | null>(null)

const lost = () =>
  Promise.reject(
    new OrangeryError('wire.lost', 'connection to Orangery: lost for now', {
      hint: 'Try again once the window is connected.',
    }),
  )
const noClient: Client = {
  call: lost,
  // oxlint-disable-next-line require-yield -- there is nothing to yield without a connection
  open: async function* () {
    await lost()
  },
  close: () => {},
}

export function useConnection(): Connection {
  const connection = useContext(ConnectionContext)
  if (connection === null) throw new Error('outside of ClientProvider')
  return connection
}

export function useConnectionState(): ConnectionState {
  const connection = useConnection()
  return useSyncExternalStore(connection.subscribe, connection.snapshot)
}

export function useClient(): Client {
  const state = useConnectionState()
  return state.status === 'open' ? state.client : noClient
}

const makeQueryClient = () =>
  new QueryClient({
    defaultOptions: {
      queries: {
        retry: false,
        refetchOnWindowFocus: false,
        // The host is this machine: the browser's idea of being online says nothing about it.
        networkMode: 'always',
        staleTime: Number.POSITIVE_INFINITY,
      },
      mutations: { networkMode: 'always' },
    },
  })

export function ClientProvider({ connection, children }: { connection: Connection; children: ReactNode }) {
  const [queries] = useState(makeQueryClient)
  useEffect(
    () => () => {
      queries.clear()
    },
    [queries],
  )
  return (
    <ConnectionContext.Provider value={connection}>
      <QueryClientProvider client={queries}>{children}</QueryClientProvider>
    </ConnectionContext.Provider>
  )
}
