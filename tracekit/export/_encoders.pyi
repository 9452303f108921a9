from tracekit.export.chrome_encoder import ChromeEncoder as ChromeEncoder
from tracekit.export.packet_encoder import PacketEncoder as PacketEncoder
