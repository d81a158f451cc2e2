/* Loaded before Dino's own libraries, for what Dino 0.4.2 has no setting for:
   - its connections to port 5222 go to THRONG_PORT;
   - it trusts the certificate THRONG_CERTIFICATE, and no other;
   - its DNS has no records, so that it does not wait for a network;
   - on SIGUSR1 it is told that the network has changed (see README.md, "faults of clients"). */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define OF_GLIB(result, name, ...) ((result(*)(__VA_ARGS__))dlsym(RTLD_DEFAULT, name))

static int network_changed(void *unused) {
  (void)unused;
  void *monitor = OF_GLIB(void *, "g_network_monitor_get_default", void)();
  OF_GLIB(void, "g_signal_emit_by_name", void *, const char *, ...)(monitor, "network-changed", 1);
  return 1; /* stay */
}

int connect(int fd, const struct sockaddr *address, socklen_t length) {
  static int listens;
  struct sockaddr_storage copy;
  if (length <= sizeof copy && (address->sa_family == AF_INET || address->sa_family == AF_INET6)) {
    memcpy(&copy, address, length);
    /* The port is at the same place for both families. */
    struct sockaddr_in *in = (struct sockaddr_in *)&copy;
    if (in->sin_port == htons(5222)) {
      in->sin_port = htons((unsigned short)atoi(getenv("THRONG_PORT")));
      address = (const struct sockaddr *)&copy;
      if (!__atomic_exchange_n(&listens, 1, __ATOMIC_RELAXED))
        OF_GLIB(unsigned, "g_unix_signal_add", int, int (*)(void *), void *)(SIGUSR1, network_changed, NULL);
    }
  }
  return ((int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "connect"))(fd, address, length);
}

int gnutls_x509_trust_list_add_system_trust(void *list, unsigned flags, unsigned verify_flags) {
  void *gnutls = dlopen("libgnutls.so.30", RTLD_LAZY);
  int (*add)(void *, const char *, const char *, int, unsigned, unsigned) =
      (int (*)(void *, const char *, const char *, int, unsigned, unsigned))dlsym(gnutls, "gnutls_x509_trust_list_add_trust_file");
  return add(list, getenv("THRONG_CERTIFICATE"), NULL, 1 /* PEM */, flags, verify_flags);
}

int res_nquery(void *state, const char *name, int class, int type, unsigned char *answer, int length) {
  (void)state, (void)name, (void)class, (void)type, (void)answer, (void)length;
  h_errno = HOST_NOT_FOUND;
  return -1;
}
