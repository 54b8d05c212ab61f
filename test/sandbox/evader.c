/* Has a file open for writing, is let go on by a timer whenever it is stopped, and goes on in children of its own,
   each of which is armed before its parent leaves; meanwhile they let all others go on, too. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static void arm(void) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};
  struct itimerspec often = {{0, 20000}, {0, 20000}};
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  timer_settime(timer, 0, &often, 0);
}

int main(void) {
  open("held", O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (fork()) _exit(0);
  signal(SIGCHLD, SIG_IGN);
  volatile int *armed = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  close(open("/home/agent/open", O_WRONLY | O_CREAT, 0644));
  for (;;) {
    arm();
    *armed = getpid();
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec < 100000);
    int child = fork();
    if (child <= 0) continue;
    for (int turn = 0; turn < 2000 && *armed != child; turn++) {
      kill(-1, SIGCONT);
      usleep(5);
    }
    _exit(0);
  }
}
