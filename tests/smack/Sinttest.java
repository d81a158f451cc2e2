import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.Security;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import org.bouncycastle.jce.provider.BouncyCastleProvider;
import org.igniterealtime.smack.inttest.Configuration;
import org.igniterealtime.smack.inttest.SmackIntegrationTestFramework;
import org.igniterealtime.smack.inttest.SmackIntegrationTestFramework.ConcreteTest;
import org.igniterealtime.smack.inttest.SmackIntegrationTestFramework.TestRunResult;
import org.igniterealtime.smack.inttest.XmppConnectionDescriptor;
import org.igniterealtime.smack.inttest.XmppConnectionManager;
import org.jivesoftware.smack.SmackException;
import org.jivesoftware.smack.XMPPConnection;
import org.jivesoftware.smack.XMPPConnectionRegistry;
import org.jivesoftware.smack.XMPPException;
import org.jivesoftware.smack.c2s.ModularXmppClientToServerConnection;
import org.jivesoftware.smack.c2s.ModularXmppClientToServerConnectionConfiguration;
import org.jivesoftware.smack.compression.CompressionModuleDescriptor;
import org.jivesoftware.smack.tcp.XMPPTCPConnection;
import org.jivesoftware.smack.tcp.XMPPTCPConnectionConfiguration;
import org.jivesoftware.smackx.disco.DiscoInfoLookupShortcutMechanism;
import org.jivesoftware.smackx.disco.ServiceDiscoveryManager;
import org.jivesoftware.smackx.disco.packet.DiscoverInfo;
import org.jivesoftware.smackx.disco.packet.DiscoverInfoBuilder;
import org.jivesoftware.smackx.omemo.signal.SignalOmemoService;
import org.jivesoftware.smackx.pubsub.packet.PubSub;
import org.jxmpp.jid.Jid;

/**
 * Runs Smack's integration tests against a server on any port, which their own main class cannot: it takes a host from the
 * property "sinttest.host", and the port is always 5222.
 *
 * Takes the port and the file for the results: a line for each test, with its outcome, its name, its time in milliseconds
 * and, unless it passed, why, between tabs.
 */
public final class Sinttest {
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        // OMEMO's cipher is BouncyCastle's, as in the tests' own main class for it.
        Security.addProvider(new BouncyCastleProvider());
        SignalOmemoService.acknowledgeLicense();
        SignalOmemoService.setup();
        connect(port);
        ServiceDiscoveryManager.addDiscoInfoLookupShortcutMechanism(new Nodes());
        TestRunResult result = new SmackIntegrationTestFramework(Configuration.newConfiguration(new String[0])).run();
        try (PrintStream out = new PrintStream(args[1], StandardCharsets.UTF_8)) {
            lines(result).forEach(out::println);
        }
        // Its threads outlive the tests.
        System.exit(0);
    }

    /** The kinds of connection that need no WebSocket, by the names that Smack has for them, to this port. */
    private static void connect(int port) throws Exception {
        XmppConnectionManager.addConnectionDescriptor(XmppConnectionDescriptor
            .buildWith(XMPPTCPConnection.class, XMPPTCPConnectionConfiguration.class, XMPPTCPConnectionConfiguration.Builder.class)
            .withNickname("tcp")
            .applyExtraConfiguration(builder -> builder.setPort(port))
            .build());
        for (String name : List.of("modular", "modular-nocompress")) {
            XmppConnectionManager.addConnectionDescriptor(XmppConnectionDescriptor
                .buildWith(ModularXmppClientToServerConnection.class, ModularXmppClientToServerConnectionConfiguration.class,
                    ModularXmppClientToServerConnectionConfiguration.Builder.class)
                .withNickname(name)
                .applyExtraConfiguration(builder -> {
                    builder.setPort(port);
                    if (name.equals("modular-nocompress")) {
                        builder.removeModule(CompressionModuleDescriptor.class);
                    }
                })
                .build());
        }
        for (String name : List.of("modular-websocket-okhttp", "modular-websocket-java11")) {
            XmppConnectionManager.removeConnectionDescriptor(name);
        }
    }

    /**
     * What the server's domain says of itself, and of nodes what the account says. Smack's OMEMO and OpenPGP ask the domain
     * whether there are nodes, which XEP-0163 6.1 has clients ask of their own account.
     */
    private static final class Nodes extends DiscoInfoLookupShortcutMechanism {
        private final Map<ServiceDiscoveryManager, XMPPConnection> connections = new ConcurrentHashMap<>();

        Nodes() {
            super("XEP-0163 6.1", 0);
            XMPPConnectionRegistry.addConnectionCreationListener(
                connection -> connections.put(ServiceDiscoveryManager.getInstanceFor(connection), connection));
        }

        @Override
        public DiscoverInfo getDiscoverInfoByUser(ServiceDiscoveryManager manager, Jid jid) {
            XMPPConnection connection = connections.get(manager);
            if (!connection.isAuthenticated() || !jid.equals(connection.getXMPPServiceDomain())) {
                return null;
            }
            try {
                DiscoverInfo domain = manager.discoverInfo(jid, null);
                DiscoverInfo account = manager.discoverInfo(connection.getUser().asBareJid(), null);
                DiscoverInfoBuilder both = domain.asBuilder(domain.getStanzaId());
                account.getFeatures().stream().map(DiscoverInfo.Feature::getVar)
                    .filter(feature -> feature.startsWith(PubSub.NAMESPACE) && !domain.containsFeature(feature))
                    .forEach(both::addFeature);
                return both.build();
            } catch (SmackException | XMPPException | InterruptedException problem) {
                return null;
            }
        }
    }

    private static List<String> lines(TestRunResult result) {
        List<String> lines = new ArrayList<>();
        result.getSuccessfulTests().forEach(t -> lines.add(line("passed", name(t.concreteTest), t.duration, null)));
        result.getFailedTests().forEach(t -> lines.add(line("failed", name(t.concreteTest), t.duration, t.failureReason)));
        result.getNotPossibleTests().forEach(
            t -> lines.add(line("not possible", name(t.concreteTest), t.duration, t.testNotPossibleException)));
        result.getImpossibleTestClasses().forEach((c, why) -> lines.add(line("not possible", c.getSimpleName(), 0, why)));
        Collections.sort(lines);
        return lines;
    }

    private static String name(ConcreteTest test) {
        String name = test.getMethod().getDeclaringClass().getSimpleName() + "." + test.getMethod().getName();
        return test.getSubdescriptons().isEmpty() ? name : name + " " + test.getSubdescriptons();
    }

    private static String line(String outcome, String name, long milliseconds, Throwable why) {
        String reason = why == null ? "" : why.toString().replaceAll("\\s+", " ");
        return String.join("\t", outcome, name, Long.toString(milliseconds), reason);
    }
}
